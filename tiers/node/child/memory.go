package child

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// memory is shared by the agent and the program: a page whose first word controls the current round, the rows, and the delta. It is a file
// without a name, which the program gets with the welcome: it needs no space in /dev/shm, and the program cannot shorten it.
type memory struct {
	file *os.File
	all  []byte
}

const page = 4096

// The first word.
const (
	wordWork    = 0 // all steps
	wordDeliver = 1 // end with this step, and deliver
	wordLeave   = 2 // end with this step: the round does not count
)

// memoryBytes is the size for that many floats.
func memoryBytes(floats int) int64 { return page + 8*int64(floats) }

// unnamed creates the file; a variable so that tests can make it fail.
var unnamed = inMemory

func newMemory(floats int, log *slog.Logger) (*memory, error) {
	size := memoryBytes(floats)
	file, err := unnamed(size)
	if err != nil {
		why := err
		if file, err = onDisk(size); err != nil {
			return nil, fmt.Errorf("%d MB to share with the program: neither memory (%w) nor a file (%w): set TMPDIR to a folder with as much space", size>>20, why, err)
		}
		log.Warn("the memory that is shared with the program is a file, which is slower", "folder", os.TempDir(), "mb", size>>20, "why", why)
	}
	all, err := syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%d MB of memory to share with the program: %w", size>>20, err)
	}
	return &memory{file: file, all: all}, nil
}

// onDisk returns a file of that size without a name. The whole file is written now: on a full disk, accessing a sparse mapping would kill
// the agent later.
func onDisk(size int64) (*os.File, error) {
	file, err := os.CreateTemp("", "tierml-memory-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	for zeros := make([]byte, 1<<20); size > 0 && err == nil; size -= int64(len(zeros)) {
		_, err = file.Write(zeros[:min(size, int64(len(zeros)))])
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (m *memory) bytes() int64 { return int64(len(m.all)) }

func (m *memory) floats(from, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&m.all[from])), n)
}

func (m *memory) rows(n int) []float32  { return m.floats(page, n) }
func (m *memory) delta(n int) []float32 { return m.floats(page+4*n, n) }

func (m *memory) set(word uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&m.all[0])), word) }

// close closes the file. The mapping stays, since readers of a delta must not crash.
func (m *memory) close() { _ = m.file.Close() }
