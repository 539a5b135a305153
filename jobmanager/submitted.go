package jobmanager

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
)

// Whoever has the token may run jobs, and no more: not read this host's files, fill its disk or have its memory.

// load reads a job file that a client has sent.
func (m *Manager) load(path string) (*config.Job, error) {
	return config.LoadForeign(path, config.Foreign{Allow: append([]string{filepath.Join(m.cfg.Home, inputsDir)}, m.cfg.Allow...)})
}

// plansAtOnce bounds the processes that plan: each may read all data of a job.
const plansAtOnce = 2

// planning waits for the turn of a plan.
func (m *Manager) planning(r *http.Request) (done func(), err error) {
	select {
	case m.plans <- struct{}{}:
		return func() { <-m.plans }, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(planWithin):
		return nil, refuse(http.StatusServiceUnavailable, "%d other plans are being made: try again", plansAtOnce)
	}
}

// longestName is more than a name, a reason or an address takes.
const longestName = 200

// who checks what a client says of itself: it is shown in journals and on terminals.
func who(by string) error {
	if len(by) > longestName || strings.ContainsFunc(by, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return refuse(http.StatusBadRequest, "by is at most %d printable characters: who asks, and why", longestName)
	}
	return nil
}

// coming is how files are called that are not there in full.
const coming = ".coming-"

// removeHalves removes what uploads left that a controller's end broke off.
func (m *Manager) removeHalves() {
	halves, _ := filepath.Glob(filepath.Join(m.cfg.Home, inputsDir, "*", coming+"*")) // the pattern is right
	for _, path := range halves {
		_ = os.Remove(path)
		_ = os.Remove(filepath.Dir(path)) // if it is empty
	}
}

// lookAtRoom is how many bytes are taken in before the room on the disk is looked at again.
const lookAtRoom = 16 << 20

// incoming is the body of an upload: it may come slowly, but not stall, and ends before the disk is full. Journals and
// checkpoints of runs that go on need the room that is left.
type incoming struct {
	from    io.Reader
	w       http.ResponseWriter
	m       *Manager
	unknown int // bytes since the room was looked at
}

func (i *incoming) Read(p []byte) (int, error) {
	if i.unknown <= 0 {
		if err := i.m.room(lookAtRoom); err != nil {
			return 0, err
		}
		i.unknown = lookAtRoom
	}
	access.Slowly(i.w)
	n, err := i.from.Read(p[:min(len(p), i.unknown)])
	i.unknown -= n
	return n, err
}

// incomingBody is one that can be closed.
type incomingBody struct {
	incoming
	io.Closer
}

// room reports whether so many bytes can be taken in.
func (m *Manager) room(bytes int64) error {
	free, err := m.cfg.free(m.cfg.Home)
	if err == nil && free < m.cfg.KeepFree+bytes {
		return refuse(http.StatusInsufficientStorage, "the controller's disk has %d MiB left, of which %d MiB stay free for the runs there: remove inputs that "+
			"no job needs, or put the file into a store", free>>20, m.cfg.KeepFree>>20)
	}
	return nil
}

// free is how many bytes of the disk below a directory may be used.
func (c Config) free(dir string) (int64, error) {
	if c.Free != nil {
		return c.Free(dir)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("looking at the room on the disk: %w", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
