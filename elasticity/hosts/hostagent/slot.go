package hostagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Files in a slot's directory.
const (
	aboutFile    = "slot.json"
	deadlineFile = "deadline" // when its host will end; absent if unknown
)

type about struct {
	Slot     provisioner.InstanceID `json:"slot"`
	Type     string                 `json:"type"`
	UserData string                 `json:"user_data"`
}

// warn records the host's end. The file is replaced atomically.
func (p *process) warn(deadline time.Time) error {
	file := filepath.Join(p.dir, deadlineFile) // in a closed directory, for the slot's own user
	return errors.Join(atomicfile.Write(file, []byte(deadline.UTC().Format(time.RFC3339Nano)), 0o644), os.Chmod(file, 0o644))
}

// Slot is a slot as seen by its process, through its directory; it is a node.Machine.
type Slot string

func (s Slot) about() (a about, err error) {
	text, err := os.ReadFile(filepath.Join(string(s), aboutFile))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return a, fmt.Errorf("reading what slot this is: %w", err)
	}
	return a, nil
}

// Identity returns the slot's name and type.
func (s Slot) Identity(context.Context) (node.Identity, error) {
	a, err := s.about()
	return node.Identity{Instance: ps.ServerID(a.Slot), Type: a.Type}, err
}

// UserData returns the user data that the job gives its machines.
func (s Slot) UserData(context.Context) (string, error) {
	a, err := s.about()
	return a.UserData, err
}

// Watch forwards the host's warning.
func (s Slot) Watch(ctx context.Context, f func(tiers.Warned)) error {
	tick := time.NewTicker(lookIn)
	defer tick.Stop()
	var last time.Time
	for {
		text, err := os.ReadFile(filepath.Join(string(s), deadlineFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for warnings: %w", err)
		}
		if err == nil {
			deadline, err := time.Parse(time.RFC3339Nano, string(text))
			if err != nil {
				return fmt.Errorf("reading a warning: %w", err)
			}
			if !deadline.Equal(last) {
				last = deadline
				f(tiers.Warned{Deadline: deadline})
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// EndWithHost kills this process's group when the host's agent ends, however it ends: its end of this process's standard input is closed
// then. It returns only if standard input cannot be watched.
func EndWithHost(stdin io.Reader) error {
	_, err := io.Copy(io.Discard, stdin)
	if err == nil {
		err = syscall.Kill(-syscall.Getpgrp(), syscall.SIGKILL)
	}
	return err
}
