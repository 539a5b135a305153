package child

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/tierml/tierml/internal/vector"
)

// memory is shared by the agent and the program: a page whose first word controls the current round, the rows, and the delta, both in rows
// as the table has them. It is a file without a name, which the program gets with the welcome: it needs no space in /dev/shm, and the
// program cannot shorten it. The program can map all but the delta for reading only.
type memory struct {
	file   *os.File
	all    []byte
	floats int // of the model
	row    int // of the model's floats in a row, which has one more
}

const (
	page = 4096
	// align is the alignment of the delta in the file: a multiple of the page size of every processor.
	align = 64 << 10
)

// The first word.
const (
	wordWork    = 0 // all steps
	wordDeliver = 1 // end with this step, and deliver
	wordLeave   = 2 // end with this step: the round does not count
)

// layout returns how many floats the rows of a model take, and where in the file the delta begins.
func layout(floats, row int) (area, delta int) {
	area = (floats + row - 1) / row * (row + 1)
	return area, (page + 4*area + align - 1) / align * align
}

// unnamed creates the file; a variable so that tests can make it fail.
var unnamed = inMemory

func newMemory(floats, row int, log *slog.Logger) (*memory, error) {
	area, at := layout(floats, row)
	size := int64(at + 4*area)
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
	return &memory{file: file, all: all, floats: floats, row: row}, nil
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

// areas returns the rows and the delta.
func (m *memory) areas() (rows, delta []float32) {
	area, at := layout(m.floats, m.row)
	return unsafe.Slice((*float32)(unsafe.Pointer(&m.all[page])), area), unsafe.Slice((*float32)(unsafe.Pointer(&m.all[at])), area)
}

// notFinite returns which of the model's floats in the delta is the first that is not finite; -1 = none.
func (m *memory) notFinite() int {
	_, delta := m.areas()
	for at := 0; at < m.floats; at += m.row {
		row := delta[:min(m.row, m.floats-at)]
		if !vector.Finite(row) {
			return at + slices.IndexFunc(row, func(x float32) bool { return x-x != 0 })
		}
		delta = delta[m.row+1:]
	}
	return -1
}

func (m *memory) set(word uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&m.all[0])), word) }

// close closes the file. The mapping stays, since readers of a delta must not crash.
func (m *memory) close() { _ = m.file.Close() }
