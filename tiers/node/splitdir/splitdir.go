// Package splitdir is where a job's splits are: one directory, one file per split. The data's cutter writes here, and nodes read. It does
// not know the files' contents.
package splitdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
)

// Name returns a split's file name.
func Name(id ps.Split) string { return fmt.Sprintf("split-%05d", id) }

// Create returns a function that writes splits into an existing directory. Files are durable once closed without error.
func Create(directory string) apps.Create {
	return func(id ps.Split) (io.WriteCloser, error) {
		f, err := os.Create(filepath.Join(directory, Name(id)))
		if err != nil {
			return nil, err
		}
		return durable{f}, nil
	}
}

// CreateTemporary is Create for files that are useless after a crash: it does not wait for the disk.
func CreateTemporary(directory string) apps.Create {
	return func(id ps.Split) (io.WriteCloser, error) {
		return os.Create(filepath.Join(directory, Name(id)))
	}
}

type durable struct{ *os.File }

func (d durable) Close() error { return errors.Join(d.Sync(), d.File.Close()) }

// Open opens a split below a place: a directory's path, a file URL, or a folder in a store as package blob knows them.
func Open(place string, id ps.Split) (io.ReadCloser, error) {
	file, err := open(place, id)
	if err != nil {
		return nil, err
	}
	return &bounded{ReadCloser: file, left: largest}, nil
}

func open(place string, id ps.Split) (io.ReadCloser, error) {
	if scheme, _, _ := strings.Cut(place, "://"); scheme == "s3" || scheme == "gs" {
		return blob.Open(context.Background(), location.Join(place, Name(id)))
	}
	directory, err := path(place)
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(directory, Name(id)))
}

// largest exceeds any split of a job: it is read into memory, and others may be allowed to write there.
const largest = 8 << 30

// bounded limits how much is read of a file.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the split has more than %d GiB: cut the data into more splits", largest>>30)
	}
	return n, err
}

// Upload copies the splits in a directory to a folder that remote machines can reach.
func Upload(ctx context.Context, directory, folder string, splits int) error {
	for id := range splits {
		name := Name(ps.Split(id))
		err := blob.Write(ctx, location.Join(folder, name), func(to io.Writer) error {
			from, err := os.Open(filepath.Join(directory, name))
			if err != nil {
				return err
			}
			_, err = io.Copy(to, from)
			return errors.Join(err, from.Close())
		})
		if err != nil {
			return fmt.Errorf("carrying splits to where machines read them: %w", err)
		}
	}
	return nil
}

func path(place string) (string, error) {
	if filepath.IsAbs(place) {
		return place, nil
	}
	u, err := url.Parse(place)
	if err != nil || u.Scheme != "file" || u.Host != "" {
		return "", fmt.Errorf("splits at %q: give an absolute path or a file:/// URL", place)
	}
	return filepath.FromSlash(u.Path), nil
}
