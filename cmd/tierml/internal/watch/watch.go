package watch

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/console"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/status"
)

func NewTopCommand() *cobra.Command {
	var plain, once bool
	var format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "top [RUN]",
		Short: "Watch a run from another terminal",
		Long: `q or Ctrl-C leaves it. With --once it prints the state, with -o as tierml ps does.
` + cli.WhichRun,
		Example: `  tierml top
  tierml top demo-1
  tierml top --once
  tierml top demo --once -o json`,
		Args: cli.OneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.Client(cmd, args)
			if err != nil {
				return err
			}
			if once || format != table.Plain && format != table.Text {
				return topOnce(cmd.Context(), client, args, format, cmd.OutOrStdout())
			}
			if client != nil {
				defer client.Close()
				return remoteTop(cmd.Context(), client, args, plain, cmd.OutOrStdout())
			}
			dir, err := target.FindRun(args)
			if err != nil {
				return err
			}
			return watch(cmd.Context(), dir, plain, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "plain lines instead of the live view")
	cmd.Flags().BoolVar(&once, "once", false, "print it once and end")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// topOnce prints where a run stands; client is nil for a run of this host.
func topOnce(ctx context.Context, client *call.Client, args []string, format string, out io.Writer) error {
	var from target.Source
	var row dashboard.Summary
	if client != nil {
		defer client.Close()
		job, err := client.Job(ctx, target.MeantJob(args))
		if err != nil {
			return err
		}
		row, from = job.Summary, target.RemoteSource(client, job.Run, false)
	} else {
		dir, err := target.FindRun(args)
		if err != nil {
			return err
		}
		if row, err = dashboard.Read(ctx, dir); err != nil {
			return err
		}
		from = func(ctx context.Context, take func(journal.Entry), _ func()) error {
			entries, _, err := target.ReadJournal(ctx, filepath.Join(dir, rundir.JournalFile))
			for _, e := range entries {
				take(e)
			}
			return err
		}
	}
	if format != table.Plain && format != table.Text {
		return writePs(out, []dashboard.Summary{row}, format)
	}
	s, begun := status.New(), false
	if err := from(ctx, func(e journal.Entry) { s.Feed(e); begun = true }, func() {}); err != nil {
		return err
	}
	if !begun {
		return fmt.Errorf("%s has not begun, or was killed before it did: its journal is empty", row.Run)
	}
	s.Flush()
	return console.WriteOnce(out, s, cli.UseColor(out))
}

// watch shows a run until it ends or the reader leaves.
func watch(ctx context.Context, dir string, plain bool, out io.Writer) error {
	if !rundir.Held(dir) {
		if _, err := dashboard.Read(ctx, dir); err != nil {
			return err // such as a damaged journal, which the commands below cannot read either
		}
		_, err := fmt.Fprintf(out, "%s has ended. `tierml events %[1]s` says what happened, `tierml report %[1]s` what it cost.\n", cli.Relative(dir))
		return err
	}
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	view := console.New(out, console.Options{Plain: plain, Watching: true, OnInterrupt: leave})
	defer view.Close()
	show := view.Recall // what is past is not reported again line by line
	err := runs.Follow(ctx, dir, func(e journal.Entry) { show(e) }, func() { show = view.Feed })
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, view.Close())
}

func NewEventsCommand() *cobra.Command {
	var follow bool
	var format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "events [RUN]",
		Short: "Show what happened in a run, and why: launches, notices, evictions, stages, roll-backs",
		Long: `-o json prints all lines of the journal.
` + cli.WhichRun,
		Example: `  tierml events demo-1
  tierml events -f
  tierml events demo-1 -o json | jq 'select(.kind == "evicted")'`,
		Args: cli.OneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.Client(cmd, args)
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
				return printEvents(cmd.Context(), target.RemoteSource(client, target.MeantJob(args), follow), follow, format, cmd.OutOrStdout())
			}
			dir, err := target.FindRun(args)
			if err != nil {
				return err
			}
			if err := printEvents(cmd.Context(), target.LocalSource(dir), follow, format, cmd.OutOrStdout()); err != nil {
				return err
			}
			if !rundir.Held(dir) {
				cli.Next(cmd, cli.Step{Command: "tierml report " + cli.Relative(dir), Why: "what it cost, and would have cost on demand"})
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// errCaughtUp ends the reading of a running run.
var errCaughtUp = errors.New("caught up")

func printEvents(ctx context.Context, from target.Source, follow bool, format string, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	s := status.New()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	asJSON, rows := format == "json", csv.NewWriter(out)
	if format == "csv" {
		_ = rows.Write([]string{"time", "event"}) // its next call reports the error
	}
	failed := func(err error) {
		if err != nil {
			stop(fmt.Errorf("printing events: %w", err))
		}
	}
	printLines := func(lines []words.Line) {
		for _, l := range lines {
			switch format {
			case "csv":
				_ = rows.Write([]string{l.T.UTC().Format(time.RFC3339), terminal.Line(l.String())})
				rows.Flush()
				failed(rows.Error())
			case table.Wide: // what kind of thing it was, as the journal calls it
				_, err := fmt.Fprintf(out, "%s  %-14s  %s\n", l.T.UTC().Format("2006-01-02 15:04:05"), terminal.Line(string(l.Kind)), terminal.Line(l.String()))
				failed(err)
			case table.Plain, table.Text:
				failed(table.Folded(out, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s  %s\n", l.T.UTC().Format("2006-01-02 15:04:05"), terminal.Line(l.String()))
					return err
				}))
			}
		}
	}
	err := from(ctx, func(e journal.Entry) {
		if asJSON {
			failed(encoder.Encode(e))
		}
		printLines(s.Feed(e))
	}, func() {
		printLines(s.Flush())
		if !follow {
			stop(errCaughtUp)
		}
	})
	switch cause := context.Cause(ctx); {
	case err == nil || !errors.Is(err, context.Canceled):
		return err
	case errors.Is(cause, errCaughtUp) || errors.Is(cause, context.Canceled):
		return nil
	default:
		return cause
	}
}
