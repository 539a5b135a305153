package watch

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/console"
	"github.com/tierml/tierml/watch/status"
)

func NewTopCommand() *cobra.Command {
	var plain, once bool
	var format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "top [RUN]",
		Short: "Watch a run from another terminal",
		Long: `q or Ctrl-C leaves it. --once prints the state once, -o in the formats of tierml ps.
` + cli.WhichRun,
		Example: `  tierml top
  tierml top demo-1
  tierml top --once
  tierml top demo --once -o json`,
		Args: cli.OneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				if once || format != table.Plain && format != table.Text {
					return topOnce(ctx, runs, target.First(args), format, cmd.OutOrStdout())
				}
				return watch(ctx, runs, target.First(args), plain, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "print plain lines instead of the live view")
	cmd.Flags().BoolVar(&once, "once", false, "print the state once and exit")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// topOnce prints a run's state.
func topOnce(ctx context.Context, runs target.Runs, run, format string, out io.Writer) error {
	name, job, err := runs.Get(ctx, run)
	if err != nil {
		return err
	}
	if format != table.Plain && format != table.Text {
		return writePs(out, []call.Job{job}, format)
	}
	s, begun := status.New(), false
	if err := runs.Events(ctx, name, false, func(e journal.Entry) { s.Feed(e); begun = true }, func() {}); err != nil {
		return err
	}
	if !begun {
		return fmt.Errorf("%s has not begun, or was killed before it did: its journal is empty", job.Run)
	}
	s.Flush()
	return console.WriteOnce(out, s, cli.UseColor(out))
}

// watch shows a run until it ends or the reader leaves.
func watch(ctx context.Context, runs target.Runs, run string, plain bool, out io.Writer) error {
	name, job, err := runs.Get(ctx, run)
	if err != nil {
		return err
	}
	if target.Ended(job) {
		how := ""
		if runs.Address() != "" {
			how = ": " + job.State + cli.Because(job.Why)
		}
		_, err := fmt.Fprintf(out, "%s has ended%s. `tierml events %[1]s` says what happened, `tierml report %[1]s` what it cost.\n", name, how)
		return err
	}
	_, err = Attach(ctx, runs, name, plain, false, out)
	return err
}

func NewEventsCommand() *cobra.Command {
	var follow bool
	var format, since string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "events [RUN]",
		Short: "Show what happened in a run, and why: launches, notices, evictions, stages, roll-backs",
		Long: `-o json prints all lines of the journal.
` + cli.WhichRun,
		Example: `  tierml events demo-1
  tierml events -f
  tierml events demo-1 --since 2h
  tierml events demo-1 -o json | jq 'select(.kind == "evicted")'`,
		Args: cli.OneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				from, err := firstTime(ctx, runs, target.First(args), since)
				if err != nil {
					return err
				}
				if err := printEvents(ctx, runs, target.First(args), from, follow, format, cmd.OutOrStdout()); err != nil {
					return err
				}
				cli.Next(cmd, cli.Step{Command: strings.TrimSpace("tierml report " + target.First(args)), Why: "what it cost, and would have cost on demand"})
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	cmd.Flags().StringVar(&since, "since", "", "only events from this `time` on, such as 2014-04-01T09:00:00Z, or 2h for the two hours before the newest event")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// firstTime returns the time of --since: a point in time, or a duration before the run's newest event. Both are market time.
func firstTime(ctx context.Context, runs target.Runs, run, since string) (from time.Time, err error) {
	if since == "" {
		return from, nil
	}
	newest := time.Now()
	if err := runs.Events(ctx, run, false, func(e journal.Entry) { newest = e.T }, func() {}); err != nil {
		return from, err
	}
	if from, err = cli.Since(since, newest); err != nil {
		err = cli.Usage(err)
	}
	return from, err
}

// printEvents prints a run's journal from a time on, until Ctrl-C with follow.
func printEvents(ctx context.Context, runs target.Runs, run string, from time.Time, follow bool, format string, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
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
			if l.T.Before(from) {
				continue
			}
			switch format {
			case "csv":
				_ = rows.Write([]string{l.T.UTC().Format(time.RFC3339), terminal.Line(l.String())})
				rows.Flush()
				failed(rows.Error())
			case table.Wide: // the kind of event, as in the journal
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
	err := runs.Events(ctx, run, follow, func(e journal.Entry) {
		if asJSON && !e.T.Before(from) {
			failed(encoder.Encode(e))
		}
		printLines(s.Feed(e))
	}, func() { printLines(s.Flush()) })
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if errors.Is(err, context.Canceled) {
		return nil // the reader has left
	}
	return err
}
