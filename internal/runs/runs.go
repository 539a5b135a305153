// Package runs finds the directories of runs and reads their journals while they grow. It only reads: inspecting a run needs no server, and
// does not disturb it.
//
// It does not know what the entries mean.
package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/spelling"
)

// List returns the directories below root that have a journal, by name and number: demo-2 before demo-10. A root that does
// not exist has none.
func List(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for runs: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		if dir := filepath.Join(root, e.Name()); hasJournal(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return Compare(filepath.Base(a), filepath.Base(b)) })
	return dirs, nil
}

// Compare orders the names of run directories.
func Compare(a, b string) int {
	nameA, numberA := split(a)
	nameB, numberB := split(b)
	return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}

func hasJournal(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, rundir.JournalFile))
	return err == nil && info.Mode().IsRegular()
}

// NoJournal returns why a run's directory without a journal cannot be shown or resumed; nil for any other directory.
func NoJournal(dir string) error {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	model := filepath.Join(dir, rundir.ModelFile)
	switch {
	case hasJournal(dir):
		return nil
	case exists(model):
		return fmt.Errorf("%s has no journal: `tierml train` keeps none, as it buys no machines; its model is %s", dir, model)
	case exists(filepath.Join(dir, rundir.SplitsDir)):
		return fmt.Errorf("%s has no journal: `tierml train` is at work in it, or its run was killed before anything was bought; start the job again", dir)
	}
	return nil
}

// split splits the name of a run directory, NAME-N; N is 0 if there is none.
func split(name string) (string, int) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return name, 0
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil {
		return name, 0
	}
	return name[:i], n
}

// probably suggests the run, or the job, that a name most likely means.
func probably(meant string, names []string) string {
	all := slices.Clone(names)
	for _, name := range names {
		job, _ := split(name)
		all = append(all, job)
	}
	if near := spelling.Nearest(meant, all); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// newest lists the last of many names.
func newest(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d before them", strings.Join(names[more:], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Find returns the directory of the run that a person names: a directory, the name of one below root, or the name of a job, which means its
// run with the highest number. An empty name means the run whose journal was last written to.
func Find(root, meant string) (string, error) {
	if meant != "" && hasJournal(meant) {
		return meant, nil
	}
	if meant != "" {
		if err := cmp.Or(NoJournal(meant), NoJournal(filepath.Join(root, meant))); err != nil {
			return "", err
		}
	}
	dirs, err := List(root)
	if err != nil {
		return "", err
	}
	if len(dirs) == 0 {
		return "", fmt.Errorf("there are no runs in %s; start one with `tierml run JOB.yaml`, or name a run's directory", root)
	}
	if meant == "" {
		return latest(dirs), nil
	}
	for _, dir := range slices.Backward(dirs) { // the highest number first
		base := filepath.Base(dir)
		if name, _ := split(base); base == meant || name == meant {
			return dir, nil
		}
	}
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		names[i] = filepath.Base(dir)
	}
	return "", fmt.Errorf("there is no run %q in %s%s; there are %s", meant, root, probably(meant, names), newest(names))
}

func latest(dirs []string) string {
	return slices.MaxFunc(dirs, func(a, b string) int { return written(a).Compare(written(b)) })
}

func written(dir string) (t time.Time) {
	if info, err := os.Stat(filepath.Join(dir, rundir.JournalFile)); err == nil {
		t = info.ModTime()
	}
	return t
}
