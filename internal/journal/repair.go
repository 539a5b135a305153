package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Damaged is an unreadable line of a journal other than a torn last one. Repair removes such lines.
type Damaged struct {
	Line int // counted from 1
	Err  error
}

func (d *Damaged) Error() string { return fmt.Sprintf("journal line %d is damaged: %v", d.Line, d.Err) }

// Unwrap returns the line's fault.
func (d *Damaged) Unwrap() error { return d.Err }

// Repair removes damaged lines from the journal at path and returns them. The original journal is kept next to it, with the suffix
// ".damaged". The first line must be intact, as it says what the run is. An undamaged journal is not changed; a torn last line is left to
// Resume.
func Repair(path string) ([]Damaged, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("mending the journal: %w", err)
	}
	var whole []byte
	var damaged []Damaged
	for number, line := range slices.Collect(bytes.Lines(text)) {
		_, err := parse(line)
		switch {
		case err == nil || !bytes.HasSuffix(line, []byte("\n")) || len(bytes.TrimSpace(line)) == 0:
			whole = append(whole, line...)
		case number == 0:
			return nil, fmt.Errorf("mending the journal %s: its first line, which says what the run is, is damaged: %w", path, err)
		default:
			damaged = append(damaged, Damaged{Line: number + 1, Err: err})
		}
	}
	if damaged == nil {
		return nil, nil
	}
	kept := path + ".damaged"
	if _, err := os.Lstat(kept); err == nil {
		return nil, fmt.Errorf("mending the journal: %s is there already, from damage before; move it away", kept)
	}
	if err := replace(path, kept, whole); err != nil {
		return nil, fmt.Errorf("mending the journal: %w", err)
	}
	return damaged, nil
}

// replace replaces a file's contents and keeps the old ones under another name. Whenever it is killed, path is complete, with one or the
// other.
func replace(path, kept string, contents []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".mended-*")
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Link(path, kept)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
