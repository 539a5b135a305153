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
	info fs.FileInfo
}

// next drops what comes before a name, and returns what has it; nil = nothing.
func (l *listing) next(name string) fs.FileInfo {
	for rest := *l; ; rest = rest[1:] {
		if len(rest) == 0 || rest[0].name >= name {
			*l = rest
			break
		}
	}
	if len(*l) == 0 || (*l)[0].name != name {
		return nil
	}
	return (*l)[0].info
}

// has reports whether something has a name.
func (l listing) has(name string) bool {
	_, ok := slices.BinarySearchFunc(l, name, func(f found, name string) int { return strings.Compare(f.name, name) })
	return ok
}

// list returns everything in the directory that may be saved.
func (p *pass) list() (listing, error) {
	if p.root == nil {
		return nil, nil
	}
	info, err := p.root.Stat(".")
	if err != nil {
		return nil, err
	}
	w := walk{pass: p, all: make(listing, 0, len(p.listed))}
	w.others.SetLimit(runtime.GOMAXPROCS(0))
	if err := errors.Join(w.in(".", info), w.others.Wait()); err != nil {
		return nil, err
	}
	slices.SortFunc(w.all, func(a, b found) int { return strings.Compare(a.name, b.name) })
	return w.all, nil
}

// walk goes through folders, several at a time: most of it is system calls.
type walk struct {
	*pass
	others errgroup.Group
	mu     sync.Mutex
	all    listing
}

// in adds what is in a folder. One that was replaced since it was listed is passed over: the next list shows what is there.
func (w *walk) in(dir string, listed fs.FileInfo) error {
	here, err := w.folder(dir, listed)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.all = append(w.all, here...)
	w.mu.Unlock()
	for _, f := range here {
		if !f.info.IsDir() {
			continue
		}
		within := func() error { return w.in(f.name, f.info) }
		if !w.others.TryGo(within) {
			if err := within(); err != nil {
				return err
			}
		}
	}
	return nil
}

// folder returns what is in a folder, without what is in its folders.
func (p *pass) folder(dir string, listed fs.FileInfo) ([]found, error) {
	file, err := p.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, p.unlessReplaced(dir, listed, err)
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(opened, listed) {
		return nil, err
	}
	entries, err := file.ReadDir(-1)
	if err != nil {
		return nil, p.unlessReplaced(dir, listed, err)
	}
	here := make([]found, 0, len(entries))
	for _, d := range entries {
		if !filenames.Complete(d.Name()) {
			continue
		}
		info, err := d.Info() // below the open folder, as it was opened in a Root
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch info.Mode().Type() {
		case 0, fs.ModeSymlink, fs.ModeDir:
			here = append(here, found{path.Join(dir, d.Name()), info})
		}
		// Sockets, pipes and devices are not state.
	}
	return here, nil
}

// unlessReplaced returns the error of opening a file, unless something else has or had its name since it was listed. Inode numbers are used
// again, so what the open met counts first: a plain file or folder gives none of these errors.
func (p *pass) unlessReplaced(name string, listed fs.FileInfo, err error) error {
	for _, met := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.ENXIO} {
		if errors.Is(err, met) {
			return nil
		}
	}
	if strings.Contains(err.Error(), "path escapes from parent") { // of os.Root, which has no name for it: a link out
		return nil
	}
	if now, failed := p.root.Lstat(name); failed != nil || !os.SameFile(now, listed) {
		return nil //nolint:nilerr // it is another file's
	}
	return err
}

// open opens a file to read. Nil = it is no regular file any more, or not the directory's alone.
func (p *pass) openFile(name string, listed fs.FileInfo) (*os.File, fs.FileInfo, error) {
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, p.unlessReplaced(name, listed, err)
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || !p.ours(name, info) {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// looks is how often the names of a file are compared: a program can move one name about, but not in step with all.
const looks = 3

// ours reports whether all names of a file are in the directory: one that has another elsewhere is not the program's state. A link into the
// directory must not bring in what is outside.
func (p *pass) ours(name string, info fs.FileInfo) bool {
	n := links(info)
	if n <= 1 {
		return true
	}
	var names []string
	for _, f := range p.listed {
		if os.SameFile(f.info, info) {
			names = append(names, f.name)
		}
	}
	same := uint64(len(names)) == n
	for range looks {
		for _, other := range names {
			now, err := p.root.Lstat(other)
			same = same && err == nil && os.SameFile(now, info) && links(now) == n
		}
	}
	if !same {
		p.foreign = append(p.foreign, name)
	}
	return same
}

// links returns how many names a file has.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// dataBytes is about how much of a file is not holes.
func dataBytes(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(info.Size(), s.Blocks*512)
	}
	return info.Size()
}
