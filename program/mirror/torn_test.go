package mirror

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program that writes a, b and DONE in place is stopped at any moment, even while file times tie: the saved files are from one step.
// Every other program writes as fast as it can, and the others compute for a moment after each checkpoint, as programs do, so that there
// are checkpoints to save.
func TestNoTornCheckpoint(t *testing.T) {
	if dir := os.Getenv("TIERML_TORN_CHILD"); dir != "" {
		checkpointUntilKilled(dir)
		return
	}
	evictions := 12
	if n, err := strconv.Atoi(os.Getenv("TIERML_EVICTIONS")); err == nil {
		evictions = n
	}
	r := rand.New(rand.NewPCG(1, 2))
	kept, newest := 0, 0
	for n := range evictions {
		size := []int{1, 8, 100, 5000, 300_000}[n%5]
		if n%50 == 49 {
			size = 50 << 20
		}
		base := t.TempDir()
		dir, to := filepath.Join(base, "state"), filepath.Join(base, "restored")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		m, err := Open(t.Context(), Config{Store: filepath.Join(base, "store"), Key: key, Attempt: 1, Dir: dir, Marker: "DONE"})
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run", "^TestNoTornCheckpoint$")
		child.Env = append(os.Environ(), "TIERML_TORN_CHILD="+dir, fmt.Sprint("TIERML_TORN_SIZE=", size), fmt.Sprint("TIERML_TORN_PAUSE=", n%2))
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for begun := false; !begun; { // DONE exists once it has written one
			_, err := os.Stat(filepath.Join(dir, "DONE"))
			begun = err == nil
			m.Watch()
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond) // any moment will do
		m.Watch()
		if n%2 == 0 {
			save(t, m, Selection{Open: func() map[string]bool { return writing(child.Process.Pid, dir) }})
		}
		_ = child.Process.Signal(syscall.SIGSTOP)
		for !stopped(child.Process.Pid) {
		}
		half := writing(child.Process.Pid, dir)
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
		save(t, m, Selection{Last: true, Unfinished: func(name string) bool { _, open := half[name]; return open }})
		m.Close() // a user has 128 watchers
		if _, err := Copy(t.Context(), m.config.Store, key, m.Latest().Name(), "", to, nil); err != nil {
			t.Fatal(err)
		}
		files := tree(t, to)
		if len(files) == 0 {
			continue // a whole one could not be distinguished from a torn one
		}
		kept++
		step := stepOf(files["DONE"])
		for _, name := range []string{"a", "b"} {
			if got := stepOf(files[name]); got != step || len(files[name]) != max(size, 8) {
				t.Errorf("eviction %d, %d bytes: %s is of step %d, DONE of %d", n, size, name, got, step)
			}
		}
		if now := tree(t, dir); stepOf(now["DONE"]) == step {
			newest++
		}
	}
	t.Logf("%d evictions: %d checkpoints restored, %d of them the newest", evictions, kept, newest)
	if kept < evictions/4 {
		t.Errorf("only %d checkpoints were saved at %d evictions", kept, evictions)
	}
}

func stepOf(text string) uint64 {
	if len(text) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(text))
}

func checkpointUntilKilled(dir string) {
	size, _ := strconv.Atoi(os.Getenv("TIERML_TORN_SIZE"))
	pause, _ := strconv.Atoi(os.Getenv("TIERML_TORN_PAUSE"))
	for step := uint64(1); ; step++ {
		began := time.Now()
		text := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, step), max(size/8, 1)+1)[:max(size, 8)]
		for _, name := range []string{"a", "b"} {
			_ = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		_ = os.WriteFile(filepath.Join(dir, "DONE"), text[:8], 0o600)
		time.Sleep(time.Duration(pause) * max(20*time.Millisecond, 2*time.Since(began))) // the program's computation
	}
}

// stopped reports whether no thread of a process runs any more.
func stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if _, state, _ := bytes.Cut(stat, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// writing returns the files that a process has open in a folder; it opens none there to append or to read.
func writing(pid int, dir string) map[string]bool {
	open := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir+"/") {
			open[to] = false
		}
	}
	return open
}
