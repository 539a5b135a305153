package rundir

import (
	"os"
	"path/filepath"
	"strings"
)

// Relative shortens a path below the working directory.
func Relative(path string) string {
	if here, err := os.Getwd(); err == nil {
		if r, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(r, "..") {
			return r
		}
	}
	return path
}
