package blob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/location"

	"github.com/tierml/tierml/internal/atomicfile"
)

// writeBuffer gathers small writes.
const writeBuffer = 256 << 10

// Write stores what write writes under a name: all of it or, after an error, nothing. Existing content is replaced. It is durable when
// Write returns.
func Write(ctx context.Context, name string, write func(io.Writer) error) error {
	p, err := location.Parse(name)
	if err != nil {
		return err
	}
	buffered := func(to io.Writer) error {
		b := bufio.NewWriterSize(stopped{ctx, to}, writeBuffer)
		if err := write(b); err != nil {
			return err // Flush would repeat it
		}
		return b.Flush()
	}
	if p.Scheme() == "" {
		err = writeFile(p.Key(), buffered)
	} else {
		err = writeObject(ctx, p, buffered)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// stopped is a writer that fails once its context has ended.
type stopped struct {
	ctx context.Context
	to  io.Writer
}

func (s stopped) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.to.Write(p)
}

func writeFile(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteTo(name, 0o644, write)
}

// Object is an object stored below a folder.
type Object struct {
	Path  string // below the folder, with slashes
	Bytes int64
}

// List returns all objects below a folder, sorted by path. A missing folder has none.
func List(ctx context.Context, folder string) ([]Object, error) {
	p, err := location.Parse(folder)
	if err != nil {
		return nil, err
	}
	var objects []Object
	if p.Scheme() == "" {
		objects, err = listFiles(p.Key())
	} else {
		objects, err = listObjects(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Path, b.Path) })
	return objects, nil
}

func listFiles(folder string) (objects []Object, err error) {
	err = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // or removed meanwhile
		case err != nil || entry.IsDir():
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		below, err2 := filepath.Rel(folder, name)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		objects = append(objects, Object{Path: filepath.ToSlash(below), Bytes: info.Size()})
		return nil
	})
	return objects, err
}

// Remove removes an object. Removing a missing one succeeds. A file's folder is removed with its last file.
func Remove(ctx context.Context, name string) error {
	p, err := location.Parse(name)
	if err != nil {
		return err
	}
	if p.Scheme() == "" {
		if err = os.Remove(p.Key()); err == nil {
			_ = os.Remove(filepath.Dir(p.Key())) // fails while it is not empty
		}
	} else {
		err = removeObject(ctx, p)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
