package kubelet

import "syscall"

// isolate gives a process mounts and process numbers of its own.
func isolate(a *syscall.SysProcAttr) error {
	a.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	return nil
}
