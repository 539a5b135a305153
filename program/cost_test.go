package program

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func measured(t *testing.T) {
	t.Helper()
	if os.Getenv("TIERML_MIRROR_COST") == "" {
		t.Skip("it takes minutes and gigabytes: make -C lab mirror-cost")
	}
}

// The time from Start to the program, with 500 MB of state from a store of files.
func TestRestoreCost(t *testing.T) {
	measured(t)
	spec := Spec{State: "state", Run: "ls state > list; echo > ready; sleep 1000", Store: filepath.Join(t.TempDir(), "store")}
	s := newSite(t, spec)
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	for i := range 5 {
		file, err := os.Create(s.path(fmt.Sprint("state/part-", i)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.CopyN(file, rand.Reader, 100e6)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop(0, true)
	saved := wait(s, func(e Saved) bool { return e.Final })
	t.Logf("saved: %.0f MB in %v", float64(saved.Sent)/1e6, saved.Took.Round(time.Millisecond))
	m := newSite(t, spec)
	began := time.Now()
	started := m.begin(Start{Attempt: 2, Resume: saved.Manifest, ResumeDigest: saved.Digest})
	m.appears("ready")
	took := time.Since(began)
	t.Logf("restored and started: %.0f MB in %v", float64(started.Bytes)/1e6, took.Round(time.Millisecond))
	if started.Bytes != 500e6 || took > 5*time.Second {
		t.Errorf("%+v", started)
	}
}

// steady does the same work in each step and prints each step. Once a minute it writes 1 GB, and renames it.
const steady = `
import os, time, hashlib
block, last, made = os.urandom(1 << 20), 0, 0
piece = bytes(200_000)
with open("steps", "w", buffering=1) as steps:
    while made < 3 or time.time() < last + 45:
        if time.time() >= last + 60 and made < 3:
            with open("state/model.tmp", "wb") as f:
                for i in range(1000):
                    f.write((made * 1000 + i).to_bytes(8, "little") + block[8:1_000_000])
            os.rename("state/model.tmp", "state/model")
            last, made = time.time(), made + 1
            steps.write(f"# {time.time()}\n")
        began = time.time()
        for _ in range(100):
            hashlib.sha256(piece)
        steps.write(f"{began} {time.time() - began}\n")
`

// The cost of saving 1 GB once a minute to a program that computes on one core all the time: how much longer its steps were during saves.
func TestMirrorCost(t *testing.T) {
	measured(t)
	script := filepath.Join(t.TempDir(), "steady.py")
	if err := os.WriteFile(script, []byte(steady), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, Spec{State: "state", Run: "python3 " + script, Every: time.Minute})
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	s.begin(Start{Attempt: 1})
	type span struct{ from, to float64 }
	var saves []span
	seen := 0
	for done := false; !done; time.Sleep(20 * time.Millisecond) {
		all := s.all()
		for _, e := range all[seen:] {
			switch e := e.(type) {
			case Saved:
				now := float64(time.Now().UnixNano()) / 1e9
				t.Logf("saved: %.0f MB, %.0f MB sent, in %v", float64(e.Bytes)/1e6, float64(e.Sent)/1e6, e.Took.Round(time.Millisecond))
				if !e.Final {
					saves = append(saves, span{now - e.Took.Seconds() - 0.05, now})
				}
			case SaveFailed:
				t.Fatalf("%+v", e)
			case Exited:
				done = true
				if e.Code != 0 {
					t.Fatalf("%+v", e)
				}
			}
		}
		seen = len(all)
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.path("steps"))
	if err != nil {
		t.Fatal(err)
	}
	var during, outside []float64
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		at, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			continue // a line about a file
		}
		took, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(saves, func(s span) bool { return at+took > s.from && at < s.to }) {
			during = append(during, took)
		} else {
			outside = append(outside, took)
		}
	}
	if len(saves) == 0 || len(during) == 0 {
		t.Fatalf("%d saves, %d steps meanwhile", len(saves), len(during))
	}
	cpu := seconds(after.Utime) + seconds(after.Stime) - seconds(before.Utime) - seconds(before.Stime)
	usual := mean(outside)
	lost := (mean(during) - usual) * float64(len(during)) / float64(len(saves))
	share := lost / 60
	t.Logf("%d cores; a step takes %.1f ms, and %.1f ms while a save goes on; a save costs the program %.2f s of a minute: %.1f %%; the agent used %.1f s of processor time for %d saves",
		runtime.NumCPU(), 1e3*usual, 1e3*mean(during), lost, 100*share, cpu, len(saves)+1)
	if share > 0.03 {
		t.Errorf("more than 3 %%")
	}
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func mean(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(len(all))
}
