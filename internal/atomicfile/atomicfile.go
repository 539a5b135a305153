// Package atomicfile replaces files atomically: a reader finds the old or the new file, even if the writer is killed or the host loses
// power. It knows nothing about the files' contents.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Unfinished is the prefix of files being written. A killed process may leave one behind.
const Unfinished = ".unfinished-"

// Write replaces the contents of a file.
func Write(path string, contents []byte, mode fs.FileMode) error {
	return WriteTo(path, mode, func(w io.Writer) error {
		_, err := w.Write(contents)
		return err
	})
}

// WriteTo is Write for contents that a function writes. If that fails, the file stays as it was. It refuses to replace something other than
// a file: a rename would replace a device by a file.
func WriteTo(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	if err := Replaceable(path); err != nil {
		return err
	}
	file, err := create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // it may already have its final name
		}
	}()
	if err := errors.Join(write(file), file.Chmod(mode), file.Sync()); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Close(), os.Rename(file.Name(), path)); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// Replaceable refuses a path that is not a file.
func Replaceable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil || info.Mode().IsRegular(): // writing will report any other problem
		return nil
	case info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	}
	return fmt.Errorf("%s is a device or a pipe, not a file", path)
}

// Probe checks that a file can be written in a path's folder now, and leaves nothing there.
func Probe(path string) error {
	file, err := create(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// create creates the file that will replace the one at a path. An error names that path, the only one that the caller knows.
func create(path string) (*os.File, error) {
	file, err := os.CreateTemp(filepath.Dir(path), Unfinished)
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "write", Path: path, Err: at.Err}
	}
	return file, err
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
