//go:build !linux

package jobmanager

// confine does nothing here: only GOMEMLIMIT, which is no hard limit, is set.
func confine(int, int64) error { return nil }

// HostMemory is unknown here.
func HostMemory() int64 { return 0 }
