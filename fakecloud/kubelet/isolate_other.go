//go:build kube && !linux

package kubelet

import (
	"errors"
	"syscall"
)

func isolate(*syscall.SysProcAttr) error { return errors.ErrUnsupported }
