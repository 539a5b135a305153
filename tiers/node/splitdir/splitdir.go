// Package splitdir is where a job's splits lie: one directory, one file per split. Who cuts the data writes here, and
// nodes read. It does not know what is in the files.
package splitdir

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// Name is a split's file name.
func Name(id ps.Split) string { return fmt.Sprintf("split-%05d", id) }

// Create gives the way to write splits into a directory that exists. Files are durable once closed without error.
func Create(directory string) apps.Create {
	return func(id ps.Split) (io.WriteCloser, error) {
		f, err := os.Create(filepath.Join(directory, Name(id)))
		if err != nil {
			return nil, err
		}
		return durable{f}, nil
	}
}

type durable struct{ *os.File }

func (d durable) Close() error { return errors.Join(d.Sync(), d.File.Close()) }

// Open opens a split below a location: a directory's path or file URL. Nothing else is supported yet.
func Open(location string, id ps.Split) (io.ReadCloser, error) {
	directory, err := path(location)
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(directory, Name(id)))
}

func path(location string) (string, error) {
	if filepath.IsAbs(location) {
		return location, nil
	}
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "file" || u.Host != "" {
		return "", fmt.Errorf("splits at %q: give an absolute path or a file:/// URL", location)
	}
	return filepath.FromSlash(u.Path), nil
}
