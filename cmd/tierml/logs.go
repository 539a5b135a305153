package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/runs"
)

func newLogsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs [RUN [MACHINE...]]",
		Short: "Print what the controller and the machines of a run have logged",
		Long: `Logs prints the logs of a run, each line with the name of who logged it: "controller" or a machine. The beginning of a
machine's name is enough.
` + whichRun,
		Example: `  tierml logs
  tierml logs demo-1 controller -f
  tierml logs demo-1 i-b7219`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := findRun(args[:min(1, len(args))])
			if err != nil {
				return err
			}
			return printLogs(cmd.Context(), dir, args[min(1, len(args)):], follow, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	return cmd
}

func printLogs(ctx context.Context, dir string, names []string, follow bool, out io.Writer) error {
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	logs := logs{dir: filepath.Join(dir, localrun.LogsDir), names: names, read: map[string]int64{}}
	for {
		held := localrun.Held(dir) // asked before reading: what was logged last is read below
		if err := logs.print(out); err != nil {
			return err
		}
		if !follow || !held {
			return logs.checkNames()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(runs.Poll):
		}
	}
}

// logs are the files of a run's logs and how far they were printed.
type logs struct {
	dir   string
	names []string // beginnings of the names wanted; none = all
	read  map[string]int64
}

// print prints what has come; lines whose end is not there yet wait for it.
func (l *logs) print(out io.Writer) error {
	files, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("looking for logs: %w", err)
	}
	for _, f := range files {
		name, isLog := strings.CutSuffix(f.Name(), ".log")
		if !isLog || !l.wanted(name) {
			continue
		}
		if err := l.printFile(out, name, filepath.Join(l.dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (l *logs) wanted(name string) bool {
	return len(l.names) == 0 || slices.ContainsFunc(l.names, func(n string) bool { return strings.HasPrefix(name, n) })
}

func (l *logs) printFile(out io.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading a log: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, l.read[name], 1<<40))
	if err != nil {
		return fmt.Errorf("reading the log %s: %w", path, err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	l.read[name] += int64(whole)
	for line := range bytes.Lines(text[:whole]) {
		if _, err := fmt.Fprintf(out, "%s | %s", name, line); err != nil {
			return fmt.Errorf("printing logs: %w", err)
		}
	}
	return nil
}

// checkNames finds names that no log has.
func (l *logs) checkNames() error {
	var errs []error
	for _, n := range l.names {
		found := false
		for name := range l.read {
			found = found || strings.HasPrefix(name, n)
		}
		if !found {
			errs = append(errs, usageError{fmt.Errorf("there is no log of %q in %s; there are %s", n, relative(l.dir), l.all())})
		}
	}
	return errors.Join(errs...)
}

func (l *logs) all() string {
	files, _ := filepath.Glob(filepath.Join(l.dir, "*.log"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".log")
	}
	return cmp.Or(strings.Join(files, ", "), "none")
}
