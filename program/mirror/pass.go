package mirror

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// mostPasses is how often a directory is read to find a moment in which nothing changes.
	mostPasses = 3
	// granular is how coarse a file system's times may be: a file that changed shortly before it was read may have
	// changed again since, with the same time.
	granular = 2 * time.Second
	// ticks is the same where this kernel's clock sets the times. It ticks each 10 ms, or later while a virtual
	// processor waits.
	ticks = 500 * time.Millisecond
	// settles is how long a system call that changes a file may take on a busy machine.
	settles = 100 * time.Millisecond
	// quiet is how long a file that is open for writing must be unchanged to count as complete: programs keep databases
	// and mapped files open for hours.
	quiet = 10 * time.Second
)

// pass reads the directory, and repeats that a few times until nothing changes meanwhile.
type pass struct {
	*Mirror
	what    Selection
	root    *os.Root // the directory; nil = it does not exist
	device  uint64   // of the directory, if this kernel's clock sets the times of its files; 0 = unknown
	sent    atomic.Int64
	left    []string
	foreign []string
	open    map[string]bool
	listed  listing // everything, as it was when the pass began
	seen    uint64  // the last change before that
}

func (m *Mirror) pass(what Selection) *pass { return &pass{Mirror: m, what: what} }

// run reads the complete files, sends their new chunks, and returns all entries, sorted by path.
func (p *pass) run(ctx context.Context) ([]Entry, error) {
	var err error
	if p.root, err = openFolder(p.config.Dir); err != nil {
		return nil, err
	}
	if p.root != nil {
		defer p.root.Close()
		p.device = localDevice(p.root)
	}
	before, err := p.begin()
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		seen := p.seen
		entries, after, torn, err := p.once(ctx, before)
		if err != nil {
			return nil, err
		}
		// Changes in between belong to another moment than the rest.
		same := !torn && p.same(before, after)
		if p.config.Marker != "" && (same || n == mostPasses) {
			p.settle()
			same = same && !p.order.changed(seen, ".")
		}
		if n < mostPasses && !same {
			before = after
			continue
		}
		var changed []string
		if !same && p.config.Marker != "" {
			changed = p.changedDirs(before, after, seen)
		}
		return p.asBefore(entries, before, changed), nil
	}
}

// settle waits until pending changes have been reported: a file is emptied before its time changes, and before the
// change is reported.
func (p *pass) settle() {
	if !p.what.Last {
		time.Sleep(settles)
	}
}

// begin lists the files to read.
func (p *pass) begin() (listing, error) {
	p.look()
	p.seen = p.order.now()
	all, err := p.list()
	if err != nil {
		return nil, err
	}
	p.listed = all
	if p.config.Marker == "" {
		return all, nil
	}
	return p.onlyMarked(all), nil
}

// same reports whether only appended files differ.
func (p *pass) same(a, b listing) bool {
	return slices.EqualFunc(a, b, func(x, y found) bool {
		return x.name == y.name && x.isDir() == y.isDir() && (x.isDir() || p.appended(x.name) || unchanged(x.stat, y.stat))
	})
}

func unchanged(a, b stat) bool {
	return a.sameFile(b) && a.size == b.size && a.changed == b.changed && a.mode == b.mode
}

// once reads each file once, and lists the directory again. Torn reports whether a file changed while it was read.
func (p *pass) once(ctx context.Context, all listing) (entries []Entry, after listing, torn bool, err error) {
	p.left, p.foreign = nil, nil
	entries = make([]Entry, len(all)) // without a path: nothing is saved
	former := p.former(all)
	looks := p.good(all, former)
	var changed listing
	for i, f := range all {
		switch {
		case f.isDir():
			entries[i] = Entry{Path: f.name, Mode: f.perm(), Dir: true}
		case f.isLink():
			entries[i] = p.link(f.name)
		case p.incomplete(f.name, f.stat):
			looks[i] = nil
		case looks[i] == nil:
			changed = append(changed, f)
		}
	}
	read, sent, err := p.readAll(ctx, changed)
	if err != nil {
		return nil, nil, false, err
	}
	// List at once: sending takes longer than reading. Also, a file that was opened for writing while it was read may
	// hold only a part of its next version.
	after, err = p.begin()
	if err := errors.Join(err, sent()); err != nil {
		return nil, nil, false, err
	}
	foreign, listed := setOf(p.foreign), p.listed
	for i, f := range all {
		name := f.name
		l, now := cmp.Or(looks[i], read[name]), listed.next(name)
		switch {
		case !f.isRegular() || foreign[name]:
		case l == nil || now == nil || !p.appended(name) && !p.replaced(l, *now) && (!unchanged(l.stat, *now) || p.incomplete(name, *now)):
			p.left, torn = append(p.left, name), torn || l != nil
			entries[i] = p.Latest().entry(name)
		default:
			entries[i], former[i] = l.entry, l
		}
	}
	p.remember(former)
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.Path == "" }), after, torn, nil
}

// good returns the earlier looks at files that have not changed, and whose chunks are all in the store; nil for the
// others.
func (p *pass) good(all listing, former []*look) []*look {
	p.mu.Lock()
	defer p.mu.Unlock()
	good := make([]*look, len(all))
	var group errgroup.Group
	parts := runtime.GOMAXPROCS(0)
	for n := range parts {
		group.Go(func() error {
			for i := n * len(all) / parts; i < (n+1)*len(all)/parts; i++ {
				l := former[i]
				if l != nil && unchanged(l.stat, all[i].stat) && l.at.Sub(l.modTime()) > p.grain(l.stat) && !slices.ContainsFunc(l.entry.Chunks, p.replace) {
					good[i] = l
				}
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	return good
}

// grain returns how long a file may have changed without another time.
func (p *pass) grain(s stat) time.Duration {
	if s.dev != p.device || s.changed%int64(time.Millisecond) == 0 {
		return granular // perhaps the file system stores whole seconds only
	}
	return ticks
}

// link returns a link's entry; empty if it leads out of the directory.
func (p *pass) link(name string) Entry {
	to, err := p.root.Readlink(name)
	to = filepath.ToSlash(to)
	switch {
	case err != nil:
		p.left = append(p.left, name)
	case !localLink(name, to):
		p.foreign = append(p.foreign, name)
	default:
		return Entry{Path: name, Link: to}
	}
	return Entry{}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// replace reports whether a chunk is not in the store, or is in a pack that is to be replaced. The caller holds the
// lock.
func (p *pass) replace(hash string) bool { return hash != hole && !p.freshLocked(hash) }

// readAll reads files, small ones first: a large one must not delay many others. Their looks are complete when sent
// returns.
func (p *pass) readAll(ctx context.Context, files listing) (read map[string]*look, sent func() error, err error) {
	read = map[string]*look{}
	slices.SortStableFunc(files, func(a, b found) int { return cmp.Compare(a.data(), b.data()) })
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	packer := &packer{pass: p, group: group, pending: map[string]bool{}}
	for _, f := range files {
		l, err := p.read(within, packer, f)
		if err != nil {
			_ = group.Wait() // it has the same cause
			return nil, nil, err
		}
		if l != nil {
			read[f.name] = l
		}
	}
	packer.flush(within)
	return read, group.Wait, nil
}

// replaced reports whether a file that was read completely has since been replaced: programs write under another name,
// and rename. Without this, a program that renames more often than its state can be sent would never have a new version
// saved.
func (p *pass) replaced(l *look, now stat) bool {
	return p.config.Marker == "" && l.whole && now.isRegular() && !l.sameFile(now)
}

// look determines which files are open for writing.
func (p *pass) look() {
	if p.what.Open == nil {
		return
	}
	p.open = map[string]bool{}
	for full, appends := range p.what.Open() {
		if name, in := strings.CutPrefix(full, filepath.Clean(p.config.Dir)+string(filepath.Separator)); in {
			p.open[filepath.ToSlash(name)] = appends
		}
	}
}

// appended reports whether a file only grows: its beginning is valid at any time.
func (p *pass) appended(name string) bool { return p.open[name] }

// incomplete reports whether a file is being written.
func (p *pass) incomplete(name string, now stat) bool {
	if p.config.Marker != "" {
		return false // it is in a directory whose marker is newer
	}
	return p.written(name, now)
}

// written reports whether a program has a file open for writing, or had when it was stopped.
func (p *pass) written(name string, now stat) bool {
	if p.what.Unfinished != nil && p.what.Unfinished(filepath.Join(p.config.Dir, filepath.FromSlash(name))) {
		return true
	}
	appends, open := p.open[name]
	return open && !appends && time.Since(now.modTime()) < quiet
}

// buffers hold one chunk each.
var buffers = sync.Pool{New: func() any { b := make([]byte, chunkBytes); return &b }}

// read cuts a file into chunks, which the group hashes and sends. It sends exactly what it hashed, whatever happens to
// the file. Nil = the file has become shorter, is gone, or must not be saved.
func (p *pass) read(ctx context.Context, packer *packer, f found) (*look, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, now, err := p.openFile(f.name, f.stat)
	if file == nil {
		return nil, err
	}
	defer file.Close()
	size := now.size
	l := &look{stat: now, at: time.Now(), entry: Entry{Path: f.name, Mode: now.perm(), Changed: now.modTime().UTC(), Size: size}}
	whole := true
	if size > 0 && size <= small {
		var hash string
		hash, whole, err = packer.read(ctx, file, size)
		l.entry.Chunks = []string{hash}
	} else {
		whole, err = p.cut(ctx, packer.group, file, &l.entry)
	}
	if !whole || err != nil {
		return nil, err
	}
	// A file is emptied some time before its time changes. This waits until both are done: file systems hold the file's
	// lock for them.
	_ = nextData(file, 0, size)
	end, err := statFile(file)
	l.whole = err == nil && unchanged(now, end)
	return l, nil
}

// cut reads a large file. It reports whether the file was as long as in its entry.
func (p *pass) cut(ctx context.Context, group *errgroup.Group, file *os.File, e *Entry) (whole bool, err error) {
	e.Chunks = make([]string, (e.Size+chunkBytes-1)/chunkBytes)
	data := int64(0) // start of the next data, if known
	for i := range e.Chunks {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		from, to := int64(i)*chunkBytes, min(int64(i+1)*chunkBytes, e.Size)
		if data <= from {
			data = nextData(file, from, e.Size)
		}
		if data >= to {
			continue // a hole
		}
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			return false, err
		}
		buffer := buffers.Get().(*[]byte)
		part := (*buffer)[:to-from]
		if whole, err := readFull(file, part); !whole {
			buffers.Put(buffer)
			return false, err
		}
		group.Go(func() error {
			defer buffers.Put(buffer)
			sum := sha256.Sum256(part)
			hash := hex.EncodeToString(sum[:])
			e.Chunks[i] = hash
			return p.send(ctx, hash, part)
		})
	}
	return true, nil
}

// nextData returns the start of a file's next data from an offset on; its size if there is none. File systems that do
// not know report everything as data.
func nextData(file *os.File, from, size int64) int64 {
	at, err := unix.Seek(int(file.Fd()), from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return from
	}
	return at
}

// send stores a chunk that the store lacks.
func (p *pass) send(ctx context.Context, hash string, part []byte) error {
	p.mu.Lock()
	_, there := p.stored[hash]
	p.mu.Unlock()
	if there {
		return nil
	}
	if err := writeAll(ctx, chunkName(p.config.Store, p.config.Key, hash), part); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, twice := p.stored[hash]; !twice {
		p.stored[hash] = int64(len(part))
		p.sent.Add(int64(len(part)))
	}
	return nil
}

// former returns the last looks at the files of a listing, in its order; nil for files that were never read.
func (m *Mirror) former(all listing) []*look {
	m.mu.Lock()
	looked := m.looked
	m.mu.Unlock()
	former := make([]*look, len(all))
	for i, f := range all {
		for len(looked) > 0 && looked[0].entry.Path < f.name {
			looked = looked[1:]
		}
		if len(looked) > 0 && looked[0].entry.Path == f.name {
			former[i] = looked[0]
		}
	}
	return former
}

// remember keeps these looks, and forgets the others.
func (m *Mirror) remember(looks []*look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked = slices.DeleteFunc(looks, func(l *look) bool { return l == nil })
}

// Unsent returns about how many bytes a save would have to send now: at most those of all files that changed since they
// were read. It may be called during a save.
func (m *Mirror) Unsent() (bytes int64, err error) {
	p := m.pass(Selection{})
	if p.root, err = openFolder(m.config.Dir); err != nil || p.root == nil {
		return 0, err
	}
	defer p.root.Close()
	all, err := p.list()
	if err != nil {
		return 0, err
	}
	former := m.former(all)
	for i, f := range all {
		if l := former[i]; f.isRegular() && (l == nil || !unchanged(l.stat, f.stat) || slices.ContainsFunc(l.entry.Chunks, m.lacks)) {
			bytes += f.data()
		}
	}
	return bytes, nil
}
