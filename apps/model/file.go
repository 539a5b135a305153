package model

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/plainfile"
)

// Save writes the model to a file atomically: a reader finds the old file or the whole new one, even after a crash.
func (m Model) Save(path string) error {
	err := atomicfile.WriteTo(path, 0o644, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<20)
		return errors.Join(m.Write(buffered), buffered.Flush())
	})
	if err != nil {
		return fmt.Errorf("save the model to %s: %w", path, err)
	}
	return nil
}

// Load reads a model from a file.
func Load(path string) (Model, error) {
	f, err := plainfile.Open(path)
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
