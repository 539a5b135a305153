//go:build noblob

package blob

import (
	"context"
	"fmt"
	"io"
)

func openObject(_ context.Context, name string, p place) (io.ReadCloser, error) {
	return nil, fmt.Errorf("open %s: this program was built without object stores (-tags noblob): copy the object to a file", name)
}
