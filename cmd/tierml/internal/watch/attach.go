package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/console"
)

// remoteTop watches a job of a job server.
func remoteTop(ctx context.Context, client *call.Client, args []string, plain bool, out io.Writer) error {
	job, err := client.Job(ctx, target.MeantJob(args))
	if err != nil {
		return err
	}
	if call.State(job.State).Over() {
		_, err := fmt.Fprintf(out, "%s is %s%s. `tierml events %[1]s` says what happened, `tierml report %[1]s` what it cost.\n", job.Run, job.State, cli.Because(job.Why))
		return err
	}
	_, err = Attach(ctx, client, job.Run, plain, out)
	return err
}

// waitForTurn reports a job's place in the queue until its run begins, or it is over.
func waitForTurn(ctx context.Context, client *call.Client, id string, out io.Writer) (job call.Job, err error) {
	bar := progress.Start(ctx, "Waiting for its turn", 0, progress.Things)
	defer bar.Done()
	out = progress.From(ctx).Writer(out)
	for said := ""; ; {
		err = client.Patient(ctx, func() error { job, err = client.Job(ctx, id); return err })
		if err != nil || call.State(job.State) != call.Queued {
			return job, err
		}
		text := fmt.Sprintf("%s is queued, place %d%s", id, job.Place, cli.Because(job.Why))
		if text != said {
			said = text
			fmt.Fprintln(out, text)
		}
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Attach shows a job of a job server until it is over, or the reader leaves (left).
func Attach(ctx context.Context, client *call.Client, id string, plain bool, out io.Writer) (left bool, err error) {
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	job, err := waitForTurn(ctx, client, id, out)
	if err == nil && !call.State(job.State).Over() {
		view := console.New(out, console.Options{Plain: plain, Watching: true, OnInterrupt: leave})
		show := view.Recall // what is past is not reported again line by line
		err = client.FollowEvents(ctx, id, func(e journal.Entry) { show(e) }, func() { show = view.Feed })
		if closing := view.Close(); err == nil {
			err = closing
		}
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(out, "\nDetached; %s continues at the job server.\nWatch    tierml top %[1]s\nEnd      tierml stop %[1]s\n", id)
		return true, nil
	}
	return false, err
}
