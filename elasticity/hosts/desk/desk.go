// Package desk serves slots of shared hosts to jobs, and each host's slots to its agent, over HTTP. It keeps the book of slots on disk: a
// line is written before anything follows from it. It decides nothing: package hosts does.
//
// Desk is the server, and the controller that the shared hosts' run drives. Cloud is a job's client, a provisioner.Cloud of slots; Host is
// the client of a host's agent. A file in the run's directory, readable only by its owner, says where the Desk is.
package desk

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/clock"
)

// Files in the directory of the shared hosts' run.
const (
	BookFile = "slots.jsonl" // the book's lines, including the user data that jobs give their machines
	DoorFile = "desk.json"   // the Desk's address, and the key to it
)

// ReadBook reads a stored book. An incomplete last line was never acted upon, and is removed.
func ReadBook(directory string) ([]hosts.Line, error) {
	path := filepath.Join(directory, BookFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the book of slots: %w", err)
	}
	lines, whole, err := hosts.ReadLines(text)
	if err == nil && whole < len(text) {
		err = os.Truncate(path, int64(whole))
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return lines, nil
}

// Config configures a Desk.
type Config struct {
	Brain     *hosts.Brain
	Directory string
	Cloud     string // of the hosts, as in a job file
	Clock     clock.Mapping
	Secret    string // all keys derive from it
	Log       *slog.Logger
}

// Desk is a running service. Its methods may be called concurrently.
//
// Invariant: whatever an answer or an action depends on is stored first (keep), and all of it happens under one lock, so that lines are in
// the order of the decisions. If a line cannot be written, nothing more is answered or done: the run ends, its hosts are left to the next
// process, and that one resumes from the last whole line.
type Desk struct {
	cfg  Config
	file *os.File

	mu      sync.Mutex
	brain   *hosts.Brain
	failed  error         // why nothing is granted or done any more
	changed chan struct{} // closed and replaced when something may have changed
	nudge   func()        // makes the driver call Step
}

// Open begins to keep the book of a Brain that was made with the stored lines.
func Open(cfg Config) (*Desk, error) {
	file, err := os.OpenFile(filepath.Join(cfg.Directory, BookFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the book of slots: %w", err)
	}
	return &Desk{cfg: cfg, file: file, brain: cfg.Brain, changed: make(chan struct{}), nudge: func() {}}, nil
}

// Nudge sets the function that makes the driver call Step, before anything is served.
func (d *Desk) Nudge(f func()) { d.nudge = f }

// Close closes the book.
func (d *Desk) Close() error { return d.file.Close() }

// now returns the market time, in the resolution of journals.
func (d *Desk) now() time.Time { return d.cfg.Clock.Now().Truncate(time.Millisecond) }

// Step returns a step of the brain; it is for the shared hosts' driver.
func (d *Desk) Step(now time.Time, events ...elasticity.Event) []elasticity.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	actions := d.brain.Step(now, events...)
	if !d.keep() { // do nothing that is not stored: a successor resumes from there
		return []elasticity.Action{elasticity.Finish{Outcome: failed}}
	}
	return actions
}

// NextWake returns when Step should be called again.
func (d *Desk) NextWake() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.brain.NextWake()
}

// failed is the outcome of a run whose book cannot be written.
const failed = "failed"

// keep stores the decisions. The lock must be held.
func (d *Desk) keep() bool {
	lines := d.brain.Book.Lines()
	close(d.changed)
	d.changed = make(chan struct{})
	if len(lines) == 0 || d.failed != nil {
		return d.failed == nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, l := range lines {
		d.failed = errors.Join(d.failed, encoder.Encode(l))
	}
	if d.failed == nil {
		_, err := d.file.Write(text.Bytes())
		d.failed = errors.Join(err, d.file.Sync())
	}
	if d.failed != nil {
		d.failed = fmt.Errorf("the book of slots cannot be written: %w", d.failed)
		d.cfg.Log.Error("the shared hosts are left to the next controller", "err", d.failed)
	}
	return d.failed == nil
}

// decide makes a decision, stores it, and wakes the driver. The error is f's, or says that no more decisions are made.
func (d *Desk) decide(f func(now time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	err := f(d.now())
	if !d.keep() {
		return d.failed
	}
	d.nudge()
	return err
}

// look reads something. It returns a channel that is closed at the next change.
func (d *Desk) look(f func()) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	return d.changed
}

// seal derives a key from the secret.
func seal(secret, of string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(of)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

func jobKey(secret string) string { return seal(secret, "slots for jobs") }

// HostKey returns the key of the hosts of a launch.
func HostKey(secret, launch string) string { return seal(secret, "host "+launch) }

// door is DoorFile's content.
type door struct {
	Address string `json:"address"` // host:port
	Key     string `json:"key,omitempty"`
	Cloud   string `json:"cloud,omitempty"`
	Clock   string `json:"clock"` // clock.Mapping
}

// Announce writes down where jobs find the Desk, and for jobs of other users in the folder open, unless it is empty. It replaces the files
// atomically.
func (d *Desk) Announce(address, open string) error {
	at := door{Address: address, Cloud: d.cfg.Cloud, Clock: d.cfg.Clock.String()}
	var err error
	if open != "" { // it contains no secret: the kernel identifies the caller
		err = at.write(open, 0o644)
	}
	at.Key = jobKey(d.cfg.Secret)
	err = errors.Join(err, at.write(d.cfg.Directory, 0o600))
	if err != nil {
		return fmt.Errorf("writing the address of the shared hosts' desk: %w", err)
	}
	return nil
}

func (d door) write(directory string, mode fs.FileMode) error {
	text, err := json.Marshal(d)
	if err == nil {
		err = atomicfile.Write(filepath.Join(directory, DoorFile), append(text, '\n'), mode)
	}
	return err
}

func readDoor(directory string) (d door, err error) {
	text, err := os.ReadFile(filepath.Join(directory, DoorFile))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("finding the shared hosts of %s: %w", directory, err)
	}
	return d, nil
}

// Where returns the cloud and the time of shared hosts, by their run's directory.
func Where(directory string) (cloud string, at clock.Mapping, err error) {
	d, err := readDoor(directory)
	if err != nil {
		return "", at, err
	}
	at, err = clock.Parse(d.Clock)
	return d.Cloud, at, err
}
