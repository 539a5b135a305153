package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
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

// list returns everything in the directory that may be saved, by path below it.
func (p *pass) list() (map[string]fs.FileInfo, error) {
	l := listing{all: make(map[string]fs.FileInfo, len(p.listed))}
	if p.root == nil {
		return l.all, nil
	}
	info, err := p.root.Stat(".")
	if err != nil {
		return nil, err
	}
	l.walks.SetLimit(runtime.GOMAXPROCS(0))
	err = p.walk(".", info, &l)
	return l.all, errors.Join(err, l.walks.Wait())
}

// listing is what walks through folders have found. There are several at a time: most of a walk is system calls.
type listing struct {
	walks errgroup.Group
	mu    sync.Mutex
	all   map[string]fs.FileInfo
}

// walk adds what is in a folder. One that was replaced since it was listed is passed over: the next list shows what is there.
func (p *pass) walk(dir string, listed fs.FileInfo, l *listing) error {
	here, err := p.folder(dir, listed)
	if err != nil {
		return err
	}
	l.mu.Lock()
	for _, f := range here {
		l.all[f.name] = f.info
	}
	l.mu.Unlock()
	for _, f := range here {
		if !f.info.IsDir() {
			continue
		}
		within := func() error { return p.walk(f.name, f.info, l) }
		if !l.walks.TryGo(within) {
			if err := within(); err != nil {
				return err
			}
		}
	}
	return nil
}

// found is something in the directory, by its path below it.
type found struct {
	name string
	info fs.FileInfo
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
	for other, i := range p.listed {
		if os.SameFile(i, info) {
			names = append(names, other)
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
