package mirror

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stat is the part of a file's status that saves compare. It is small, as there may be very many.
type stat struct {
	dev, ino, links uint64
	size, blocks    int64 // bytes, and blocks of 512 bytes that are not holes
	changed         int64 // nanoseconds since 1970
	mode            uint32
}

func statOf(s unix.Stat_t) stat {
	return stat{
		dev: uint64(s.Dev), ino: s.Ino, links: uint64(s.Nlink), size: s.Size, blocks: s.Blocks, changed: s.Mtim.Nano(), mode: uint32(s.Mode),
	}
}

// statAt returns the stat of a name in an open folder. Links are not followed.
func statAt(folder int, name string) (stat, error) {
	var s unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstatat(folder, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	return statOf(s), err
}

// statFile returns the stat of an open file.
func statFile(file *os.File) (stat, error) {
	var s unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstat(int(file.Fd()), &s) })
	return statOf(s), err
}

// retryEINTR repeats a system call that a signal interrupted.
func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s stat) isDir() bool          { return s.mode&unix.S_IFMT == unix.S_IFDIR }
func (s stat) isRegular() bool      { return s.mode&unix.S_IFMT == unix.S_IFREG }
func (s stat) isLink() bool         { return s.mode&unix.S_IFMT == unix.S_IFLNK }
func (s stat) perm() uint32         { return s.mode & 0o777 }
func (s stat) modTime() time.Time   { return time.Unix(0, s.changed) }
func (s stat) sameFile(t stat) bool { return s.dev == t.dev && s.ino == t.ino }

// data returns about how many bytes are not holes.
func (s stat) data() int64 { return min(s.size, s.blocks*512) }

// lstat returns the identity, kind and number of names of the file with a name in the directory.
func (p *pass) lstat(name string) (stat, error) {
	info, err := p.root.Lstat(name)
	if err != nil {
		return stat{}, err
	}
	s := info.Sys().(*syscall.Stat_t)
	return stat{dev: uint64(s.Dev), ino: s.Ino, links: uint64(s.Nlink), mode: uint32(s.Mode)}, nil
}

// localDevice returns the device of a directory on a file system whose times come from this kernel's clock, not from a
// server's; otherwise 0.
func localDevice(root *os.Root) uint64 {
	dir, err := root.Open(".")
	if err != nil {
		return 0
	}
	defer dir.Close()
	var system unix.Statfs_t
	if retryEINTR(func() error { return unix.Fstatfs(int(dir.Fd()), &system) }) != nil {
		return 0
	}
	switch system.Type { // Linux's numbers, in statfs(2)
	case 0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630: // ext4, XFS, Btrfs, tmpfs, overlayfs
		s, err := statFile(dir)
		if err == nil {
			return s.dev
		}
	}
	return 0
}
