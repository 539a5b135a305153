//go:build !linux

package child

import (
	"errors"
	"os"
)

func inMemory(int64) (*os.File, error) { return nil, errors.ErrUnsupported }
