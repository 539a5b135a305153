//go:build !linux

package marked

import "errors"

func set(uintptr) error { return errors.ErrUnsupported }

func drop() error { return errors.ErrUnsupported }
