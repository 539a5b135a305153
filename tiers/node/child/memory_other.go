//go:build !linux

package child

import (
	"errors"
	"os"
)

// unnamed returns a file of that size without a name.
func unnamed(size int64) (*os.File, error) {
	file, err := os.CreateTemp("", "tierml-memory-")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(file.Name()), file.Truncate(size)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
