package input

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// inMemory is the size in bytes above which an array moves from memory to a file.
const inMemory = 1 << 30

// array is a list that is appended to, then read. Beyond its limit it lives in an unlinked file, which the kernel caches as memory allows,
// so that data of any size can be read and sorted. T must not contain pointers.
type array[T any] struct {
	limit  int64 // bytes kept in memory
	blocks [][]T // as appended, until there is a file
	length int
	file   *os.File
	out    *bufio.Writer
	mapped []byte // the mapped file, once read
}

// add appends a block, which the caller must not use afterwards.
func (a *array[T]) add(block []T) error {
	a.length += len(block)
	if a.file == nil && a.bytes() <= a.limit {
		a.blocks = append(a.blocks, block)
		return nil
	}
	if a.file == nil {
		if err := a.spill(); err != nil {
			return err
		}
	}
	return a.write(block)
}

func (a *array[T]) bytes() int64 {
	var one T
	return int64(a.length) * int64(unsafe.Sizeof(one))
}

func (a *array[T]) spill() error {
	file, err := os.CreateTemp("", "tierml-input-")
	if err != nil {
		return fmt.Errorf("data that does not fit in memory: %w", err)
	}
	a.file, a.out = file, bufio.NewWriterSize(file, 1<<18)
	if err := os.Remove(file.Name()); err != nil { // it exists until it is closed, or the process ends
		return err
	}
	for _, block := range a.blocks {
		if err := a.write(block); err != nil {
			return err
		}
	}
	a.blocks = nil
	return nil
}

func (a *array[T]) write(block []T) error {
	var one T
	_, err := a.out.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(block))), len(block)*int(unsafe.Sizeof(one))))
	return a.fault(err)
}

// fault adds advice to the error of a full disk.
func (a *array[T]) fault(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("no room in %s for data that does not fit in memory; TMPDIR names another folder: %w", os.TempDir(), err)
	}
	return err
}

// each passes on the blocks in order, and releases them.
func (a *array[T]) each(take func([]T)) error {
	if a.file != nil {
		all, err := a.all()
		if err != nil {
			return err
		}
		take(all)
		return a.close()
	}
	for i, block := range a.blocks {
		take(block)
		a.blocks[i] = nil
	}
	return nil
}

// all returns the whole list, which is valid until close and may be changed. Do not call add afterwards.
func (a *array[T]) all() ([]T, error) {
	if a.file == nil {
		if len(a.blocks) == 1 {
			return a.blocks[0], nil
		}
		all := make([]T, 0, a.length)
		for i, block := range a.blocks {
			all = append(all, block...)
			a.blocks[i] = nil
		}
		a.blocks = [][]T{all}
		return all, nil
	}
	if err := a.fault(a.out.Flush()); err != nil {
		return nil, err
	}
	mapped, err := syscall.Mmap(int(a.file.Fd()), 0, int(a.bytes()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the file of what does not fit in memory: %w", err)
	}
	a.mapped = mapped
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapped))), a.length), nil
}

func (a *array[T]) close() error {
	if a.file == nil {
		return nil
	}
	var err error
	if a.mapped != nil {
		err = syscall.Munmap(a.mapped)
	}
	err = errors.Join(err, a.file.Close())
	*a = array[T]{limit: a.limit}
	return err
}
