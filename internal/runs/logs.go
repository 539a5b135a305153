package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/localrun"
)

// Logs are the files of a run's logs and how far they were printed.
type Logs struct {
	dir   string
	names []string // beginnings of the names wanted; none = all
	read  map[string]int64
}

// OpenLogs returns the logs of the run in a directory; names are the beginnings of those wanted, none = all.
func OpenLogs(dir string, names []string) *Logs {
	return &Logs{dir: filepath.Join(dir, localrun.LogsDir), names: names, read: map[string]int64{}}
}

// Follow prints what is there and, while going says so, what comes.
func (l *Logs) Follow(ctx context.Context, going func() bool, out io.Writer) error {
	for {
		more := going() // asked before reading: what was logged last is read below
		if err := l.Print(out); err != nil {
			return err
		}
		if !more {
			return l.checkNames()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(Poll):
		}
	}
}

// Print prints what has come; lines whose end is not there yet wait for it.
func (l *Logs) Print(out io.Writer) error {
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

func (l *Logs) wanted(name string) bool {
	return len(l.names) == 0 || slices.ContainsFunc(l.names, func(n string) bool { return strings.HasPrefix(name, n) })
}

func (l *Logs) printFile(out io.Writer, name, path string) error {
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

// NoLog says that a name that was asked for has no log.
type NoLog struct{ text string }

func (n NoLog) Error() string { return n.text }

// checkNames finds names that no log has.
func (l *Logs) checkNames() error {
	var errs []error
	for _, n := range l.names {
		found := false
		for name := range l.read {
			found = found || strings.HasPrefix(name, n)
		}
		if !found {
			errs = append(errs, NoLog{fmt.Sprintf("there is no log of %q in %s; there are %s", n, filepath.Base(filepath.Dir(l.dir)), l.all())})
		}
	}
	return errors.Join(errs...)
}

func (l *Logs) all() string {
	files, _ := filepath.Glob(filepath.Join(l.dir, "*.log"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".log")
	}
	return cmp.Or(strings.Join(files, ", "), "none")
}
