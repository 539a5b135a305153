package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/program/filenames"
)

const (
	// mostPasses is how often a directory is looked through for a moment in which nothing changes.
	mostPasses = 3
	// granular is how coarse a file system's times may be: a file that changed shortly before it was read may have changed again since,
	// at the same time by the file system's clock.
	granular = 2 * time.Second
	// quiet is for how long a file that is open for writing must not have changed to count as complete: programs hold databases and mapped
	// files open for hours.
	quiet = 10 * time.Second
)

// pass is one look through the directory, repeated a few times until nothing changes meanwhile.
type pass struct {
	*Mirror
	what Selection
	sent atomic.Int64
	left []string
	open map[string]bool
}

func (m *Mirror) pass(what Selection) *pass { return &pass{Mirror: m, what: what} }

// run reads what is complete, sends its new chunks, and returns all entries, sorted by path.
func (p *pass) run(ctx context.Context) ([]Entry, error) {
	before, err := p.list()
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		entries, torn, err := p.once(ctx, before)
		if err != nil {
			return nil, err
		}
		after, err := p.list()
		if err != nil {
			return nil, err
		}
		// What changed in between belongs to another moment than the rest.
		same := !torn && p.same(before, after)
		if n < mostPasses && !same {
			before = after
			continue
		}
		var changed []string
		if !same && p.config.Marker != "" {
			changed = p.changedDirs(before, after)
		}
		return p.asBefore(entries, before, changed), nil
	}
}

// list returns everything in the directory that is wanted, by path below it.
func (p *pass) list() (map[string]fs.FileInfo, error) {
	all := map[string]fs.FileInfo{}
	err := filepath.WalkDir(p.config.Dir, func(full string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile, or not made yet
		}
		if err != nil {
			return err
		}
		if full == p.config.Dir {
			return nil
		}
		if !filenames.Complete(d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
			return nil // sockets, pipes and devices are not state
		}
		below, err := filepath.Rel(p.config.Dir, full)
		if err != nil {
			return err
		}
		below = filepath.ToSlash(below)
		all[below] = info
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p.config.Marker != "" {
		p.onlyMarked(all)
	}
	return all, nil
}

// same reports whether nothing but appended files differs.
func (p *pass) same(a, b map[string]fs.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		y, ok := b[name]
		if !ok || x.IsDir() != y.IsDir() || !x.IsDir() && !p.appended(name) && !unchanged(x, y) {
			return false
		}
	}
	return true
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// once reads each file once. Torn reports whether one changed while it was read.
func (p *pass) once(ctx context.Context, all map[string]fs.FileInfo) (entries []Entry, torn bool, err error) {
	p.left = nil
	p.look()
	files, read := []string{}, map[string]*look{}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		info := all[name]
		switch {
		case info.IsDir():
			entries = append(entries, Entry{Path: name, Mode: uint32(info.Mode().Perm()), Dir: true})
			continue
		case info.Mode().Type() == fs.ModeSymlink:
			if to, err := os.Readlink(p.full(name)); err == nil && localLink(name, filepath.ToSlash(to)) {
				entries = append(entries, Entry{Path: name, Link: filepath.ToSlash(to)})
			} else {
				p.left = append(p.left, name)
			}
			continue
		}
		files = append(files, name)
		if p.incomplete(name, info) {
			continue
		}
		if l, ok := p.former(name); ok && unchanged(l.info, info) && l.at.Sub(info.ModTime()) > granular {
			read[name] = &l
			continue
		}
		l, err := p.read(within, group, name, info)
		if err != nil {
			_ = group.Wait() // it has the same cause
			return nil, false, err
		}
		if l != nil {
			read[name] = l
		}
	}
	if err := group.Wait(); err != nil {
		return nil, false, err
	}
	p.look() // a file that was opened for writing while it was read may have only a part of what comes
	for _, name := range files {
		l, now := read[name], fs.FileInfo(nil)
		if l != nil {
			if now, err = os.Lstat(p.full(name)); err != nil {
				now = nil
			}
		}
		if l == nil || now == nil || !p.appended(name) && !p.replaced(l, now) && (!unchanged(l.info, now) || p.incomplete(name, now)) {
			p.left, torn = append(p.left, name), torn || l != nil
			continue
		}
		p.remember(name, *l)
		entries = append(entries, l.entry)
	}
	if latest := p.Latest(); latest != nil {
		for _, e := range latest.Files {
			if slices.Contains(p.left, e.Path) {
				entries = append(entries, e)
			}
		}
	}
	p.forget(func(name string, _ look) bool { return all[name] == nil })
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return entries, torn, nil
}

// replaced reports whether another file has taken the place of one that was read, which is whole: programs write under another name,
// and rename. One that renames faster than states travel would otherwise never have a new version saved.
func (p *pass) replaced(l *look, now fs.FileInfo) bool {
	return p.config.Marker == "" && l.whole && now.Mode().IsRegular() && !os.SameFile(l.info, now)
}

// look finds out which files are open for writing.
func (p *pass) look() {
	if p.what.Open != nil {
		p.open = p.what.Open()
	}
}

func (p *pass) full(name string) string {
	return filepath.Join(p.config.Dir, filepath.FromSlash(name))
}

// appended reports whether a file only becomes longer: its beginning is good at any time.
func (p *pass) appended(name string) bool { return p.open[p.full(name)] }

// incomplete reports whether a file is being written.
func (p *pass) incomplete(name string, info fs.FileInfo) bool {
	if p.config.Marker != "" {
		return false // it is in a directory whose marker is newer
	}
	full := p.full(name)
	if p.what.Unfinished != nil && p.what.Unfinished(full) {
		return true
	}
	appends, open := p.open[full]
	return open && !appends && time.Since(info.ModTime()) < quiet
}

// buffers are of one chunk each.
var buffers = sync.Pool{New: func() any { b := make([]byte, chunkBytes); return &b }}

// read cuts a file into chunks, which the group hashes and sends. What is hashed is what is sent, whatever happens to the file. Nil = the file has
// become shorter, or is gone.
func (p *pass) read(ctx context.Context, group *errgroup.Group, name string, info fs.FileInfo) (*look, error) {
	file, err := os.Open(p.full(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil {
		return nil, err
	} else if !os.SameFile(opened, info) {
		if info = opened; !info.Mode().IsRegular() {
			return nil, nil
		}
	}
	l := &look{info: info, at: time.Now(), entry: Entry{Path: name, Mode: uint32(info.Mode().Perm()), Changed: info.ModTime().UTC(), Size: info.Size()}}
	l.entry.Chunks = make([]string, (info.Size()+chunkBytes-1)/chunkBytes)
	for i := range l.entry.Chunks {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		buffer := buffers.Get().(*[]byte)
		part := (*buffer)[:min(chunkBytes, info.Size()-int64(i)*chunkBytes)]
		_, err := io.ReadFull(file, part)
		if err != nil {
			buffers.Put(buffer)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, nil
			}
			return nil, fmt.Errorf("read %s: %w", p.full(name), err)
		}
		group.Go(func() error {
			defer buffers.Put(buffer)
			sum := sha256.Sum256(part)
			hash := hex.EncodeToString(sum[:])
			l.entry.Chunks[i] = hash
			return p.send(ctx, hash, part)
		})
	}
	end, err := file.Stat()
	l.whole = err == nil && unchanged(info, end)
	return l, nil
}

// send stores a chunk that the store does not have.
func (p *pass) send(ctx context.Context, hash string, part []byte) error {
	p.mu.Lock()
	there := p.stored[hash]
	p.mu.Unlock()
	if there {
		return nil
	}
	if err := writeAll(ctx, chunkName(p.config.Store, p.config.Key, hash), part); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stored[hash] {
		p.stored[hash] = true
		p.sent.Add(int64(len(part)))
	}
	return nil
}

// former is what a file was when it was read.
func (m *Mirror) former(name string) (look, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.looked[name]
	return l, ok
}

func (m *Mirror) remember(name string, l look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked[name] = l
}

func (m *Mirror) forget(which func(string, look) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.looked, which)
}

// Unsent is about how many bytes a save would have to send now: at most those of all files that changed since they were read. It may be asked for while a save
// goes on.
func (m *Mirror) Unsent() (bytes int64, err error) {
	all, err := m.pass(Selection{}).list()
	if err != nil {
		return 0, err
	}
	for name, info := range all {
		if !info.Mode().IsRegular() {
			continue
		}
		if l, ok := m.former(name); !ok || !unchanged(l.info, info) {
			bytes += info.Size()
		}
	}
	return bytes, nil
}
