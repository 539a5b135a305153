package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/tierml/tierml/internal/plainfile"
)

// SizeOf returns the length of a file on this host; 0 = unknown.
func SizeOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}

// OpenRegular opens a file named on a command line.
func OpenRegular(path, advice string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Usage(fmt.Errorf("%s does not exist; %s", path, advice))
	case err == nil && info.IsDir():
		return nil, Usage(fmt.Errorf("%s is a directory; %s", path, advice))
	}
	if err := plainfile.Check(path); err != nil {
		return nil, Usage(fmt.Errorf("%w; %s", err, advice))
	}
	return os.Open(path)
}

// Unread is the output of a run whose reader may go away, as with `| head`: the run continues, and unread output is dropped.
type Unread struct {
	io.Writer
	gone bool
}

func (u *Unread) Write(p []byte) (n int, err error) {
	if !u.gone {
		n, err = u.Writer.Write(p)
		u.gone = errors.Is(err, syscall.EPIPE)
	}
	if u.gone {
		return len(p), nil
	}
	return n, err
}

// StoppingWriter is an output other than a terminal, such as a file on a disk that may fill up. A write error then ends
// the work in an orderly way.
type StoppingWriter struct {
	io.Writer
	Stop   func(why string)
	broken bool
}

func (l *StoppingWriter) Write(p []byte) (int, error) {
	if l.broken {
		return len(p), nil
	}
	if _, err := l.Writer.Write(p); err != nil {
		l.broken = true
		l.Stop("its output cannot be written: " + err.Error())
	}
	return len(p), nil
}
