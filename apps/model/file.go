package model

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes the model to a file, all or nothing: a reader finds the old file or the whole new one, also
// after a crash.
func (m Model) Save(path string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("save the model: %w", err)
	}
	err = errors.Join(m.fill(temporary), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save the model to %s: %w", path, err), os.Remove(temporary.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("save the model: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("save the model: %w", err)
	}
	return nil
}

func (m Model) fill(f *os.File) error {
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := m.Write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // temporary files are private
		return err
	}
	return f.Sync()
}

// Load reads a model from a file.
func Load(path string) (Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return Model{}, fmt.Errorf("load the model: %w", err)
	}
	defer f.Close()
	m, err := Read(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return Model{}, fmt.Errorf("load the model from %s: %w", path, err)
	}
	return m, nil
}
