package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// archivedFile marks a run that lists of the dashboard omit.
const archivedFile = "archived"

// Archive marks the run in a directory, or removes the mark.
func Archive(dir string, archived bool) error {
	path := filepath.Join(dir, archivedFile)
	err := os.Remove(path)
	if archived {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("archiving a run: %w", err)
	}
	return nil
}

// Archived reports whether the run in a directory is archived.
func Archived(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, archivedFile))
	return err == nil
}
