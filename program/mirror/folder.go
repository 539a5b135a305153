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

// A program changes its folder while it is being read, and may be hostile. So no path is resolved twice: names are
// resolved below an open folder (os.Root), no open waits for the other end of a pipe, and only the opened file counts.

// openFolder opens the directory. Nil = it does not exist. It refuses a link, which could lead anywhere.
func openFolder(dir string) (*os.Root, error) {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, gone(err)
	}
	defer parent.Close()
	name := filepath.Base(dir)
	root, err := parent.OpenRoot(name + "/.") // the dot rejects a pipe; opening that would wait
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

// gone drops the error for a missing file.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// listing is the directory's contents, sorted by path. Comparing sorted lists of many files is several times faster
// than comparing maps.
type listing []found

// found is an item in the directory, by its path below it.
type found struct {
	name string
	stat
}

// next drops items before a name, and returns the stat of that name; nil = none.
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

// walk reads folders, several at a time: most of the time goes to system calls.
type walk struct {
	*pass
	others  errgroup.Group
	mu      sync.Mutex
	folders map[string]listing // each folder's items, without those of its subfolders
}

// in lists a folder and its subfolders. It skips a folder that was replaced since it was listed: the next list shows
// its contents.
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

// appendTo adds the contents of a folder and of everything below it.
func (w *walk) appendTo(all listing, dir string) listing {
	var later []string // folders whose contents come later: a-b sorts between a and a/b
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

// folder returns a folder's items, without those of its subfolders, sorted.
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
		if s.isRegular() || s.isLink() || s.isDir() { // sockets, pipes and devices are not part of the state
			here = append(here, found{within + name, s})
		}
	}
	return here, nil
}

// unlessReplaced returns the error of opening a file, unless the name now belongs, or belonged, to something else since
// it was listed. Inode numbers are reused, so the kind of error counts first: a plain file or folder causes none of
// these.
func (p *pass) unlessReplaced(name string, listed *stat, err error) error {
	for _, met := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.ENXIO} {
		if errors.Is(err, met) {
			return nil
		}
	}
	if strings.Contains(err.Error(), "path escapes from parent") { // from os.Root, which has no exported error for a link that leads out
		return nil
	}
	if now, failed := p.lstat(name); failed != nil || listed != nil && !now.sameFile(*listed) {
		return nil //nolint:nilerr // the error belongs to another file
	}
	return err
}

// openFile opens a file for reading. Nil = it is no longer a regular file, or has names outside the directory.
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

// looks is how often a file's names are compared: a program can move one name about, but not in step with every
// comparison.
const looks = 3

// ours reports whether all names of a file are in the directory: a file with another name elsewhere is not the
// program's state. A link into the directory must not bring in files from outside.
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
