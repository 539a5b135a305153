package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/program/filenames"
)

// A program changes its folder while it is read, and may be hostile. So nothing is looked up by a path twice: names are resolved below an open
// folder (os.Root), no open waits for the other end of a pipe, and what counts is the file that was opened.

// openFolder opens the directory. Nil = it does not exist. One that is a link is refused: it could lead anywhere.
func openFolder(dir string) (*os.Root, error) {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, gone(err)
	}
	defer parent.Close()
	name := filepath.Base(dir)
	root, err := parent.OpenRoot(name + "/.") // the dot refuses a pipe; opening that would wait
	if err != nil {
		return nil, gone(err)
	}
	opened, err := root.Stat(".")
	named, err2 := parent.Lstat(name)
	if err := errors.Join(err, err2); err != nil {
		_ = root.Close()
		return nil, err
	}
	if !named.IsDir() || !os.SameFile(opened, named) {
		_ = root.Close()
		return nil, fmt.Errorf("%s is a link, and its target is not saved: let the program keep its state in a folder of that name", dir)
	}
	return root, nil
}

// gone drops the error that there is no such file.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// listing is what is in the directory, sorted by path. Sorted lists of many files are compared several times faster than maps.
type listing []found

// found is something in the directory, by its path below it.
type found struct {
	name string
	stat
}

// next drops what comes before a name, and returns what has it; nil = nothing.
func (l *listing) next(name string) *stat {
	for rest := *l; ; rest = rest[1:] {
		if len(rest) == 0 || rest[0].name >= name {
			*l = rest
			break
		}
	}
	if len(*l) == 0 || (*l)[0].name != name {
		return nil
	}
	return &(*l)[0].stat
}

// list returns everything in the directory that may be saved.
func (p *pass) list() (listing, error) {
	if p.root == nil {
		return nil, nil
	}
	w := walk{pass: p, folders: map[string]listing{}}
	w.others.SetLimit(runtime.GOMAXPROCS(0))
	if err := errors.Join(w.in(".", nil), w.others.Wait()); err != nil {
		return nil, err
	}
	return w.appendTo(make(listing, 0, len(p.listed)), "."), nil
}

// walk goes through folders, several at a time: most of it is system calls.
type walk struct {
	*pass
	others  errgroup.Group
	mu      sync.Mutex
	folders map[string]listing // what is in each, without what is in its folders
}

// in lists a folder and those in it. One that was replaced since it was listed is passed over: the next list shows what is there.
func (w *walk) in(dir string, listed *stat) error {
	here, err := w.folder(dir, listed)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.folders[dir] = here
	w.mu.Unlock()
	for i := range here {
		if !here[i].isDir() {
			continue
		}
		within := func() error { return w.in(here[i].name, &here[i].stat) }
		if !w.others.TryGo(within) {
			if err := within(); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendTo adds what is in a folder and below it.
func (w *walk) appendTo(all listing, dir string) listing {
	var later []string // folders whose contents are still to come: a-b sorts between a and a/b
	for _, f := range w.folders[dir] {
		for n := len(later); n > 0 && later[n-1]+"/" < f.name; n = len(later) {
			all = w.appendTo(all, later[n-1])
			later = later[:n-1]
		}
		all = append(all, f)
		if f.isDir() {
			later = append(later, f.name)
		}
	}
	for _, dir := range slices.Backward(later) {
		all = w.appendTo(all, dir)
	}
	return all
}

// folder returns what is in a folder, without what is in its folders, sorted.
func (p *pass) folder(dir string, listed *stat) (listing, error) {
	file, err := p.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, p.unlessReplaced(dir, listed, err)
	}
	defer file.Close()
	if opened, err := statFile(file); err != nil || listed != nil && !opened.sameFile(*listed) {
		return nil, err
	}
	names, err := file.Readdirnames(-1)
	if err != nil {
		return nil, p.unlessReplaced(dir, listed, err)
	}
	slices.Sort(names)
	here, within := make(listing, 0, len(names)), ""
	if dir != "." {
		within = dir + "/"
	}
	for _, name := range names {
		if !filenames.Complete(name) {
			continue
		}
		s, err := statAt(int(file.Fd()), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "lstat", Path: path.Join(p.config.Dir, dir, name), Err: err}
		}
		if s.isRegular() || s.isLink() || s.isDir() { // sockets, pipes and devices are not state
			here = append(here, found{within + name, s})
		}
	}
	return here, nil
}

// unlessReplaced returns the error of opening a file, unless something else has or had its name since it was listed. Inode numbers are used
// again, so what the open met counts first: a plain file or folder gives none of these errors.
func (p *pass) unlessReplaced(name string, listed *stat, err error) error {
	for _, met := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.ENXIO} {
		if errors.Is(err, met) {
			return nil
		}
	}
	if strings.Contains(err.Error(), "path escapes from parent") { // of os.Root, which has no name for it: a link out
		return nil
	}
	if now, failed := p.lstat(name); failed != nil || listed != nil && !now.sameFile(*listed) {
		return nil //nolint:nilerr // it is another file's
	}
	return err
}

// openFile opens a file to read. Nil = it is no regular file any more, or not the directory's alone.
func (p *pass) openFile(name string, listed stat) (*os.File, stat, error) {
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, stat{}, p.unlessReplaced(name, &listed, err)
	}
	now, err := statFile(file)
	if err != nil || !now.isRegular() || !p.ours(name, now) {
		return nil, stat{}, errors.Join(err, file.Close())
	}
	return file, now, nil
}

// looks is how often the names of a file are compared: a program can move one name about, but not in step with all.
const looks = 3

// ours reports whether all names of a file are in the directory: one that has another elsewhere is not the program's state. A link into the
// directory must not bring in what is outside.
func (p *pass) ours(name string, file stat) bool {
	if file.links <= 1 {
		return true
	}
	var names []string
	for _, f := range p.listed {
		if f.sameFile(file) {
			names = append(names, f.name)
		}
	}
	same := uint64(len(names)) == file.links
	for range looks {
		for _, other := range names {
			now, err := p.lstat(other)
			same = same && err == nil && now.sameFile(file) && now.links == file.links
		}
	}
	if !same {
		p.foreign = append(p.foreign, name)
	}
	return same
}
