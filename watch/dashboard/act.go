package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tierml/tierml/elasticity/scaling"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/rundir"
)

// Acts are the buttons that pages of running runs offer to clients with the token, in addition to more and fewer machines. A nil one is not offered.
type Acts struct {
	// Stop ends the run in a directory gracefully, and does not wait for the end.
	Stop func(ctx context.Context, dir string) error
	// Scaling returns why a run must not get more or fewer workers; nil = none is refused.
	Scaling func(dir string, workers int32) error
	// Delete removes an ended run from the disk, or returns why it must not.
	Delete func(ctx context.Context, dir string) error
	// Drill disturbs the run, waits until it continues, and returns the report.
	Drill func(ctx context.Context, dir, do string) (string, error)
}

// Offers sets the actions of pages behind a token. Call it before the board serves.
func (b *Board) Offers(a Acts) { b.acts = a }

// by names the dashboard in journals.
const by = "the dashboard"

// act executes a form of a run's page, and shows the result. Only Guarded serves it: its gate admits a browser's POST only from our own
// pages.
func (b *Board) act(w http.ResponseWriter, request *http.Request) {
	r := b.named(w, request)
	if r == nil {
		return
	}
	if _, changes := b.may(request, r.summary(b.now())); !changes {
		troubleOf(w, r, http.StatusForbidden, "Not done", fmt.Sprintf("You may see %s, and not change it: that needs the token with which it was submitted, or the right to administer its group.", r.name()))
		return
	}
	request.Body = http.MaxBytesReader(w, request.Body, 4096)
	var title, text string
	var err error
	_, going := r.linesRead()
	back := r.link()
	switch what := request.PostFormValue("act"); {
	case what == "stop" && b.acts.Stop != nil:
		title, text = "Stopping "+r.name(), "It saves its work and ends its machines. Its page shows when it has ended."
		err = b.acts.Stop(request.Context(), r.dir)
	case what == "scale":
		title = "Machines of " + r.name()
		text, err = b.scale(request.Context(), r.dir, request.PostFormValue("workers"))
	case what == "drill" && b.acts.Drill != nil:
		title = "Drill of " + r.name()
		text, err = b.acts.Drill(request.Context(), r.dir, request.PostFormValue("do"))
	case what == "delete" && b.acts.Delete != nil && !going:
		title, text, back = "Deleted "+r.name(), "Its journal, report, logs and checkpoints are gone.", "/"
		if b.manager != nil {
			text += " What it cost still counts."
		}
		err = b.acts.Delete(request.Context(), r.dir)
		b.listed.forget()
	case what == "archive" && !going, what == "restore":
		title, text, back = "Archived "+r.name(), "The list leaves it out, and its days and groups still count it.", "/"
		if what == "restore" {
			title, text = "Restored "+r.name(), "The list has it again."
		}
		err = rundir.Archive(r.dir, what == "archive")
		b.listed.forget()
	default:
		troubleOf(w, r, http.StatusBadRequest, "Not done", fmt.Sprintf("A page of %s does not offer %q.", r.name(), what))
		return
	}
	b.log.Info("a page was used", "run", r.name(), "act", request.PostFormValue("act"), "error", err)
	if err != nil {
		troubleOf(w, r, http.StatusConflict, "Not done", err.Error())
		return
	}
	show(w, request, "done.html", struct {
		frame
		Title, Text, Run, Link string
	}{newFrame(false), title, text, map[bool]string{true: "the runs", false: r.name()}[back == "/"], back})
}

// scale adds or removes workers of a run, and returns the new number in words.
func (b *Board) scale(ctx context.Context, dir, workers string) (string, error) {
	n, err := strconv.ParseInt(workers, 10, 32)
	if err != nil || n == 0 {
		return "", fmt.Errorf("%q is no number of workers to add; write one such as 2 or -1", workers)
	}
	if b.acts.Scaling != nil {
		if err := b.acts.Scaling(dir, int32(n)); err != nil {
			return "", err
		}
	}
	var last *pb.Standing
	err = scaling.Ask(ctx, dir, &pb.Change{Workers: int32(n), By: by}, func(s *pb.Standing) { last = s })
	if err != nil || last == nil {
		return "", err
	}
	wanted := fmt.Sprintf("%d transient machines are wanted", last.WantedMachines)
	if last.WantedVcpus > 0 {
		wanted = fmt.Sprintf("transient machines with %d vCPUs are wanted", last.WantedVcpus)
	}
	return fmt.Sprintf("%d workers train now, and %s. The policy chooses what is bought.", last.Workers, wanted), nil
}
