package prepare

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/ps"
)

// A disk that is full when splits are created, written or closed is named as the cause, not the data.
func TestFullDiskWhileSplitsAreWritten(t *testing.T) {
	job, err := config.Load("../../examples/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, fails := range []string{"create", "write", "close"} {
		_, _, err := Data(t.Context(), job, func(ps.Split) (io.WriteCloser, error) {
			if fails == "create" {
				return nil, syscall.ENOSPC
			}
			return fullDisk(fails), nil
		})
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "reads") {
			t.Errorf("%s: %v", fails, err)
		}
		if code, coded := exitcode.Of(err); coded {
			t.Errorf("%s: exit code %d", fails, code)
		}
	}
}

type fullDisk string

func (f fullDisk) Write(p []byte) (int, error) {
	if f == "write" {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

func (f fullDisk) Close() error {
	if f == "close" {
		return syscall.ENOSPC
	}
	return nil
}
