package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/rundir"
)

// Logs are the files of a run's logs and how far they were printed.
type Logs struct {
	dir   string
	names []string // prefixes of the wanted names; none = all
	read  map[string]int64
}

// OpenLogs returns the logs of the run in a directory; names are prefixes of the wanted ones, none = all.
func OpenLogs(dir string, names []string) *Logs {
	return &Logs{dir: filepath.Join(dir, rundir.LogsDir), names: names, read: map[string]int64{}}
}

// Follow prints the log and, while going reports true, additions to it.
func (l *Logs) Follow(ctx context.Context, going func() bool, out io.Writer) error {
	for {
		more := going() // asked before reading: the last lines are read below
		err := l.print(out, !more)
		if more && errors.Is(err, fs.ErrNotExist) {
			err = nil // the run has just begun
		}
		if err != nil {
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

// Print prints new lines; incomplete ones wait for their end.
func (l *Logs) Print(out io.Writer) error { return l.print(out, false) }

// print is Print; finally it no longer waits for ends.
func (l *Logs) print(out io.Writer, last bool) error {
	files, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return NoLog{fmt.Sprintf("%s has no logs: there is no folder %s; `tierml events %[1]s` says what happened", filepath.Dir(l.dir), filepath.Base(l.dir)), err}
	}
	if err != nil {
		return fmt.Errorf("looking for logs: %w", err)
	}
	for _, f := range files {
		name, isLog := strings.CutSuffix(f.Name(), ".log")
		if !isLog || !l.wanted(name) {
			continue
		}
		if err := l.printFile(out, name, filepath.Join(l.dir, f.Name()), last); err != nil {
			return err
		}
	}
	return nil
}

func (l *Logs) wanted(name string) bool {
	return len(l.names) == 0 || slices.ContainsFunc(l.names, func(n string) bool { return strings.HasPrefix(name, n) })
}

func (l *Logs) printFile(out io.Writer, name, path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading a log: %w", err)
	}
	defer f.Close()
	text := bufio.NewReaderSize(io.NewSectionReader(f, l.read[name], math.MaxInt64-l.read[name]), longestLine)
	source, _, _ := strings.Cut(name, ".")           // of a program's log, without the number of the attempt
	printed := bufio.NewWriterSize(out, longestLine) // keeps the first error of its writes for Flush
	for {
		line, err := text.ReadSlice('\n')
		if errors.Is(err, io.EOF) && (!last || len(line) == 0) {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return errors.Join(fmt.Errorf("reading the log %s: %w", path, err), printed.Flush())
		}
		l.read[name] += int64(len(line))
		_, _ = printed.WriteString(source)
		_, _ = printed.WriteString(" | ")
		_, _ = printed.Write(bytes.TrimSuffix(line, []byte("\n")))
		if printed.WriteByte('\n') != nil {
			break
		}
	}
	if err := printed.Flush(); err != nil {
		return fmt.Errorf("printing logs: %w", err)
	}
	return nil
}

// longestLine bounds the part of a log in memory; longer lines are printed as several.
const longestLine = 64 << 10

// NoLog reports that there is no log of a name.
type NoLog struct {
	text string
	why  error // may be nil
}

func (n NoLog) Error() string { return n.text }

// Unwrap returns what kept the log from being read.
func (n NoLog) Unwrap() error { return n.why }

// checkNames reports names that no log has.
func (l *Logs) checkNames() error {
	var errs []error
	for _, n := range l.names {
		found := false
		for name := range l.read {
			found = found || strings.HasPrefix(name, n)
		}
		if !found {
			errs = append(errs, NoLog{fmt.Sprintf("there is no log of %q in %s; there are %s", n, filepath.Base(filepath.Dir(l.dir)), l.all()), nil})
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
