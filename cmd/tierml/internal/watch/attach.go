package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/console"
)

// waitForTurn reports a job's place in the queue until its run begins, or it ends.
func waitForTurn(ctx context.Context, runs target.Runs, id string, out io.Writer) (job call.Job, err error) {
	bar := progress.Start(ctx, "Waiting for its turn", 0, progress.Things)
	defer bar.Done()
	out = progress.From(ctx).Writer(out)
	for said := ""; ; {
		_, job, err = runs.Get(ctx, id)
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

// ProgramLogs are the prefixes of programs' logs.
var ProgramLogs = []string{"rank-", "task-"}

// Attach shows a run, and with output what its programs print, until the run ends or the reader leaves (left).
func Attach(ctx context.Context, runs target.Runs, id string, plain, output bool, out io.Writer) (left bool, err error) {
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	job, err := waitForTurn(ctx, runs, id, out)
	if err == nil && !target.Ended(job) {
		view := console.New(out, console.Options{Plain: plain || output, Watching: true, OnInterrupt: leave})
		show := view.Recall // past entries are not reported again line by line
		var logs sync.WaitGroup
		if output {
			logs.Go(func() { _ = runs.Logs(ctx, id, ProgramLogs, true, view.Output()) }) // `tierml logs` has what a broken connection loses
		}
		err = runs.Events(ctx, id, true, func(e journal.Entry) { show(e) }, func() { show = view.Feed })
		logs.Wait()
		if closing := view.Close(); err == nil {
			err = closing
		}
	}
	if errors.Is(err, context.Canceled) && runs.Address() == "" {
		return true, nil
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(out, "\nDetached; %s continues at the job server.\nWatch    tierml top %[1]s\nEnd      tierml stop %[1]s\n", id)
		return true, nil
	}
	return false, err
}
