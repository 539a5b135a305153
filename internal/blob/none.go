//go:build noblob

package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tierml/tierml/internal/location"
)

func openObject(_ context.Context, name string, _ location.Place, _, _ int64) (io.ReadCloser, error) {
	return nil, fmt.Errorf("open %s: %w: copy the object to a file", name, errNoStores)
}

var errNoStores = errors.New("this program was built without object stores (-tags noblob)")

func writeObject(context.Context, location.Place, func(io.Writer) error) error { return errNoStores }

func listObjects(context.Context, location.Place) ([]Object, error) { return nil, errNoStores }

func removeObject(context.Context, location.Place) error { return errNoStores }
