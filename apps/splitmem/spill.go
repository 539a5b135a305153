package splitmem

import (
	"bytes"
	"io"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// Spill keeps split files in memory while there is room, and the others elsewhere. Its methods are an apps.Create and an apps.Open. Do not
// use it concurrently while files are created.
type Spill struct {
	room   int // bytes
	kept   Files
	create apps.Create
	open   apps.Open
}

// NewSpill returns a spill that keeps that many bytes in memory.
func NewSpill(room int, create apps.Create, open apps.Open) *Spill {
	return &Spill{room: room, kept: Files{}, create: create, open: open}
}

// Create starts a split's file.
func (s *Spill) Create(id ps.Split) (io.WriteCloser, error) {
	return &spilled{of: s, id: id}, nil
}

// Open reads a split's file from its beginning.
func (s *Spill) Open(id ps.Split) (io.ReadCloser, error) {
	if s.kept[id] != nil {
		return s.kept.Open(id)
	}
	return s.open(id)
}

type spilled struct {
	of        *Spill
	id        ps.Split
	kept      bytes.Buffer
	elsewhere io.WriteCloser // nil while there is room
}

func (f *spilled) Write(p []byte) (int, error) {
	if f.elsewhere == nil && f.kept.Len()+len(p) <= f.of.room {
		return f.kept.Write(p)
	}
	if f.elsewhere == nil {
		file, err := f.of.create(f.id)
		if err != nil {
			return 0, err
		}
		f.elsewhere = file
		if _, err := f.kept.WriteTo(file); err != nil {
			return 0, err
		}
	}
	return f.elsewhere.Write(p)
}

func (f *spilled) Close() error {
	if f.elsewhere != nil {
		return f.elsewhere.Close()
	}
	f.of.room -= f.kept.Len()
	f.of.kept[f.id] = &f.kept
	return nil
}
