//go:build !linux

package confine

// Memory does nothing here: only GOMEMLIMIT, which is no hard limit, is set.
func Memory(int, int64) error { return nil }

// HostMemory is unknown here.
func HostMemory() int64 { return 0 }
