package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// inMemory returns an in-memory file of a fixed size.
func inMemory(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("tierml", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "tierml")
	err = file.Truncate(size)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
