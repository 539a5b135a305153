package jobmanager

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/sched"
)

// slotBook follows the book of slots of the shared hosts.
type slotBook struct {
	path    string
	at      int64 // bytes read
	book    *hosts.Book
	waiting bool // slots wait for a transient host
}

// holding is what a job has of the transient hosts.
type holding struct {
	slots int           // that it has or waits for
	where []sched.Place // of those that are on hosts, and stay
}

// held is how many transient slots each job has or waits for.
func (b *slotBook) held() (map[string]holding, error) {
	file, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); b.book == nil || err == nil && info.Size() < b.at {
		b.book, b.at = hosts.NewBook(hosts.Rules{}), 0
	}
	text, err := io.ReadAll(io.NewSectionReader(file, b.at, 1<<40))
	if err != nil {
		return nil, err
	}
	lines, whole, err := hosts.ReadLines(text)
	for _, l := range lines {
		err = errors.Join(err, b.book.Apply(l))
	}
	if err != nil {
		b.book = nil
		return nil, err
	}
	b.at += int64(whole)
	held := map[string]holding{}
	b.waiting = false
	for _, s := range b.book.Slots() {
		if !s.Ended.IsZero() || s.Tier != step.Transient {
			continue
		}
		h := held[runOf(s.Job)]
		h.slots++
		b.waiting = b.waiting || s.Host == ""
		if s.Host != "" && !s.Leaving {
			h.where = append(h.where, sched.Place{Host: string(s.Host), Workers: 1})
		}
		held[runOf(s.Job)] = h
	}
	return held, nil
}

// runOf is the run of a job as slots name it: with eight digits that distinguish runs of one name.
func runOf(name string) string {
	if run, digits, cut := cutLast(name); cut && len(digits) == 8 {
		return run
	}
	return name
}
