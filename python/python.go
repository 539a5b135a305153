// Package python embeds the Python package tierml, which programs on TierML's machines may import: pure Python, with numpy only if a
// program uses it. Every machine then has it without an installation.
package python

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed tierml/*.py tierml/py.typed
var files embed.FS

// Write writes the package into a directory, for PYTHONPATH.
func Write(dir string) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}
