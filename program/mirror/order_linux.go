package mirror

import (
	"encoding/binary"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// order records the order in which a directory's files changed, from inotify. Events queue in the kernel until they are
// read: there is no goroutine. Unknown changes do not count as earlier than anything: those lost to a full queue, and
// those in a folder too new to be watched.
type order struct {
	mu      sync.Mutex
	dir     string
	fd      int
	folders map[int32]string  // by watch descriptor
	since   map[string]uint64 // when each folder began to be watched
	last    map[string]uint64 // last change of each file; missing = none since its folder was watched. For folders, with a slash: of everything below them
	count   uint64            // number of changes
	lost    uint64            // the order of changes before this is unknown
	buffer  []byte
}

const changes = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_MOVE_SELF | unix.IN_DELETE | unix.IN_ATTRIB | unix.IN_ONLYDIR |
	unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK

// newOrder watches a directory. If the system has no room for it, everything is unknown.
func newOrder(dir string) *order {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		fd = -1
	}
	o := &order{dir: dir, fd: fd, folders: map[int32]string{}, since: map[string]uint64{}, last: map[string]uint64{}, buffer: make([]byte, 64<<10)}
	o.watch(".")
	return o
}

func (o *order) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fd >= 0 {
		_ = unix.Close(o.fd)
		o.fd = -1
	}
}

// watch watches a folder and everything below it.
func (o *order) watch(name string) {
	if o.fd < 0 {
		return
	}
	full := filepath.Join(o.dir, filepath.FromSlash(name))
	wd, err := unix.InotifyAddWatch(o.fd, full, changes)
	if err != nil {
		if os.IsNotExist(err) || errors.Is(err, unix.ENOTDIR) {
			return // already deleted
		}
		o.count++
		o.lost = o.count
		return
	}
	if was, again := o.folders[int32(wd)]; !again || was != name {
		delete(o.since, was)
		o.folders[int32(wd)], o.since[name] = name, o.count
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return // already deleted
	}
	for _, e := range entries {
		if e.IsDir() {
			o.watch(path.Join(name, e.Name()))
		}
	}
}

// now reads queued events, and returns the number of the last change.
func (o *order) now() uint64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.drain()
}

func (o *order) drain() uint64 {
	for o.fd >= 0 {
		n, err := unix.Read(o.fd, o.buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < unix.SizeofInotifyEvent {
			break
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			event := o.buffer[at:n]
			wd, mask := int32(binary.NativeEndian.Uint32(event)), binary.NativeEndian.Uint32(event[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(event[12:]))
			o.take(wd, mask, strings.TrimRight(string(event[unix.SizeofInotifyEvent:end]), "\x00"))
			at += end
		}
	}
	if _, ok := o.since["."]; !ok {
		o.watch(".") // it was replaced
	}
	return o.count
}

func (o *order) take(wd int32, mask uint32, name string) {
	o.count++
	folder, ok := o.folders[wd]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		o.lost = o.count
		o.watch(".") // folders may have been created
		return
	case mask&unix.IN_IGNORED != 0:
		delete(o.folders, wd)
		if ok {
			delete(o.since, folder)
		}
		return
	case mask&unix.IN_MOVE_SELF != 0 && folder == ".":
		_, _ = unix.InotifyRmWatch(o.fd, uint32(wd))
		return
	case !ok || name == "":
		return
	}
	below := path.Join(folder, name)
	switch {
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		delete(o.last, below)
	case mask&unix.IN_ISDIR == 0:
		o.last[below] = o.count
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		o.watch(below)
	}
	o.touch(below)
}

// touch records a change in a folder and in its parents.
func (o *order) touch(name string) {
	for name != "." {
		name = path.Dir(name)
		o.last[name+"/"] = o.count
	}
}

// changed reports whether anything below a folder changed after the given change. Unknown counts as unchanged.
func (o *order) changed(seen uint64, dir string) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	return o.last[dir+"/"] > seen || o.lost > seen
}

// before reports whether a file last changed before the marker did.
func (o *order) before(name, marker string) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	if o.fd < 0 {
		return false
	}
	of, mark := o.last[name], o.last[marker]
	if since, ok := o.since[path.Dir(marker)]; mark == 0 { // unchanged since its folder began to be watched
		return ok && of == 0 && o.lost <= since
	}
	return mark > max(of, o.lost)
}
