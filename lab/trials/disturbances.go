package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/market"
)

// fault is a disturbance at a time since the start of training. It selects its machine by a position among the live
// ones, from 0 to 1, so that a plan is meaningful whatever happened before.
type fault struct {
	at    time.Duration
	kind  string
	place float64
	long  time.Duration
	must  bool // it is retried until it hits a machine
}

func (f fault) String() string {
	return fmt.Sprintf("%6.1fs %-15s %.3f %v", f.at.Seconds(), f.kind, f.place, f.long)
}

// kind is a way of disturbing runs: how often it is drawn for a storm, how long it may last (a machine's silence in
// multiples of the time after which it is given up), and its effect. Its function returns what it hit, or nothing if
// there was no such machine.
type kind struct {
	name        string
	weight      int
	short, long time.Duration
	do          func(t *trial, f fault) (string, error)
}

const deadAfter = 3 * time.Second // the silence after which storms' machines are given up

// kinds of disturbances. The order is that of drawing: add new ones at the end.
var kinds = []kind{
	{"kill", 6, 0, 0, kill(market.Spot)},
	{"kill-half", 2, 0, 0, (*trial).killHalf},
	{"silence", 4, deadAfter + 500*time.Millisecond, deadAfter + 3*time.Second, freeze(market.Spot)},
	// Shorter than the silence limit: it may have no effect. It may hit reliable machines too.
	{"pause", 3, 100 * time.Millisecond, 1200 * time.Millisecond, freeze(market.Spot, market.OnDemand)},
	{"drop", 6, 0, 0, (*trial).drop},
	{"evict", 4, 0, 0, evict("evict", 2)},
	{"evict-all", 1, 0, 0, evict("evict", 100)},
	{"evict-now", 3, 0, 0, evict("evict-now", 2)},
	{"evict-twice", 2, 100 * time.Millisecond, time.Second, (*trial).evictTwice},
	{"evict-late", 3, 500 * time.Millisecond, 2500 * time.Millisecond, (*trial).evictLate},
	{"no-capacity", 1, time.Second, 5 * time.Second, forAWhile("no-capacity")},
	{"slow-start", 1, 2 * time.Second, 5 * time.Second, (*trial).slowStart},
	{"throttle", 1, 500 * time.Millisecond, 2 * time.Second, forAWhile("throttle")},
	{"kill-controller", 3, 100 * time.Millisecond, 3 * time.Second, (*trial).killController},
	{"disk-full", 3, 2 * time.Second, 6 * time.Second, (*trial).fillDisk},
	{"kill-reliable", 2, 0, 0, kill(market.OnDemand)},
	{"scale", 4, 0, 0, (*trial).scaleSomehow},
}

// victim returns the machine at a fault's position among those of some classes; false if there is none.
func (t *trial) victim(f fault, classes ...market.Class) (machine, bool, error) {
	list, err := t.machines(classes...)
	if err != nil || len(list) == 0 {
		return machine{}, false, err
	}
	return list[int(f.place*float64(len(list)))], true, nil
}

// onMachine returns a fault that does something to one machine of some classes.
func onMachine(do func(t *trial, f fault, m machine) (string, error), classes ...market.Class) func(*trial, fault) (string, error) {
	return func(t *trial, f fault) (string, error) {
		m, ok, err := t.victim(f, classes...)
		if !ok || err != nil {
			return "", err
		}
		return do(t, f, m)
	}
}

// kill returns a fault that kills a process with SIGKILL, which breaks its connections. A reliable machine dies with
// the backups that it holds.
func kill(classes ...market.Class) func(*trial, fault) (string, error) {
	return onMachine(func(_ *trial, _ fault, m machine) (string, error) {
		_ = syscall.Kill(m.pid, syscall.SIGKILL) // it may have ended
		return m.id, nil
	}, classes...)
}

func (t *trial) killHalf(f fault) (string, error) {
	list, err := t.machines(market.Spot)
	if err != nil {
		return "", err
	}
	var ids []string
	for i, m := range list {
		if (i+int(f.place*10))%2 == 0 {
			_ = syscall.Kill(m.pid, syscall.SIGKILL) // it may have ended
			ids = append(ids, m.id)
		}
	}
	return strings.Join(ids, " "), nil
}

// freeze returns a fault that stops a process for a while, with its connections open. A machine that was given up
// meanwhile wakes up with unfinished work.
func freeze(classes ...market.Class) func(*trial, fault) (string, error) {
	return onMachine(func(t *trial, f fault, m machine) (string, error) { return t.stop(m, f.long) }, classes...)
}

func (t *trial) stop(m machine, long time.Duration) (string, error) {
	if err := syscall.Kill(m.pid, syscall.SIGSTOP); err != nil {
		return "", nil // it has ended
	}
	t.later(long, func() error {
		_ = syscall.Kill(m.pid, syscall.SIGCONT) // it may have been killed
		return nil
	})
	return m.id, nil
}

func evict(verb string, most int) func(*trial, fault) (string, error) {
	return func(t *trial, f fault) (string, error) {
		targets, err := t.do("%s random %d", verb, 1+int(f.place*float64(most)))
		return strings.Join(targets, " "), err
	}
}

// toMarket converts a wall-clock time for the cloud's scripts.
func toMarket(wall time.Duration) time.Duration { return (wall * speed).Truncate(time.Second) }

// forAWhile returns a fault of the whole market, with a wall-clock duration.
func forAWhile(verb string) func(*trial, fault) (string, error) {
	return func(t *trial, f fault) (string, error) {
		_, err := t.do("%s for %v", verb, toMarket(f.long))
		return "the market", err
	}
}

func (t *trial) slowStart(f fault) (string, error) {
	_, err := t.do("slow-start boot %v for 1h", f.long) // an hour is six seconds here
	return "the market", err
}

// evictTwice sends the notice twice.
func (t *trial) evictTwice(f fault) (string, error) {
	return onMachine(func(t *trial, f fault, m machine) (string, error) {
		_, err := t.do("evict %s", m.id)
		t.later(f.long, func() error {
			_, err := t.do("evict %s", m.id)
			return ignoreGone(err)
		})
		return m.id, ignoreGone(err)
	}, market.Spot)(t, f)
}

// evictLate delays the notice, for the machine and the controller, until most of its time has passed.
func (t *trial) evictLate(f fault) (string, error) {
	return onMachine(func(t *trial, f fault, m machine) (string, error) {
		if _, err := forAWhile("throttle")(t, f); err != nil {
			return "", err
		}
		if _, err := t.stop(m, f.long); err != nil {
			return "", err
		}
		_, err := t.do("evict %s", m.id)
		return m.id, ignoreGone(err)
	}, market.Spot)(t, f)
}

// ignoreGone ignores an error because a machine has ended since it was looked up.
func ignoreGone(err error) error {
	if err != nil && strings.Contains(err.Error(), "400") {
		return nil
	}
	return err
}

// killController kills the controller and restarts it alongside its machines. Faults that are due meanwhile
// follow afterwards.
func (t *trial) killController(f fault) (string, error) {
	t.run.signal(syscall.SIGKILL)
	<-t.run.ended
	if t.run.err == nil {
		return "", nil // it had ended cleanly
	}
	time.Sleep(f.long)
	return "the controller", t.resume()
}

// scale requests other numbers of machines, as people do.
func (t *trial) scale(wish ...string) (answer string, err error) {
	return t.ask(append([]string{"scale", t.folder()}, wish...)...)
}

// scaleSomehow draws a request. An impossible one is refused, and then nothing was disturbed.
func (t *trial) scaleSomehow(f fault) (string, error) {
	wishes := []string{"--restore", "--restore", "--workers +2", "--workers -2", "--workers -1 --servers -1",
		"--servers +1", "--servers -1", "--workers +1 --servers +1"}
	wish := wishes[int(f.place*float64(len(wishes)))]
	if answer, err := t.scale(strings.Fields(wish)...); err != nil {
		lines := strings.Split(strings.TrimSpace(answer), "\n")
		fmt.Fprintf(t.out, "%v  not now: %s\n", f, lines[len(lines)-1])
		return "", nil
	}
	return wish, nil
}

// drop breaks about half of a machine's connections, to its controller and to other machines.
func (t *trial) drop(f fault) (string, error) {
	return onMachine(func(_ *trial, f fault, m machine) (string, error) {
		broken := 0
		for i, c := range connectionsOf(m.pid) {
			if (i+int(f.place*10))%2 == 0 {
				filter := fmt.Sprintf("sport = :%d and dport = :%d", c[0], c[1])
				if out, err := exec.Command("ss", "-K", "-t", filter).CombinedOutput(); err != nil {
					return "", fmt.Errorf("ss -K: %w: %s", err, out)
				}
				broken++
			}
		}
		if broken == 0 {
			return "", nil
		}
		return fmt.Sprintf("%s %d connections", m.id, broken), nil
	}, market.Spot, market.OnDemand)(t, f)
}

// connectionsOf returns the local and the remote port of each TCP connection of a process; none if it has ended.
func connectionsOf(pid int) (ports [][2]int) {
	inodes := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		const established = "01"
		if len(fields) > 9 && fields[3] == established && inodes[fields[9]] {
			ports = append(ports, [2]int{port(fields[1]), port(fields[2])})
		}
	}
	return ports
}

// port parses the port of an address in the format of /proc.
func port(address string) int {
	_, text, _ := strings.Cut(address, ":")
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == 2 {
		return int(raw[0])<<8 | int(raw[1])
	}
	n, _ := strconv.Atoi(text)
	return n
}

// Checkpoints of a trial with a disk of its own are written to a file system that is sometimes full.
const (
	diskDir  = "disk"
	diskSize = "8m"
)

// makeDisk mounts the file system at a folder of the site, which requires root. Remove unmounts it, and keeps a copy of
// its contents if wanted.
func makeDisk(folder string) (remove func(keep bool) error, err error) {
	dir := filepath.Join(folder, diskDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a place for checkpoints: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize); err != nil {
		return nil, fmt.Errorf("making a file system for checkpoints (leave it out with -without disk-full): %w", err)
	}
	return func(keep bool) (err error) {
		if keep {
			err = os.CopyFS(filepath.Join(folder, "disk-kept"), os.DirFS(dir))
		}
		return errors.Join(err, syscall.Unmount(dir, syscall.MNT_DETACH))
	}, nil
}

// fillDisk leaves no room for checkpoints for a while.
func (t *trial) fillDisk(f fault) (string, error) {
	path := t.path(diskDir, "filler")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", nil // it is full already
	}
	for err == nil { // also use pages that a checkpoint has freed meanwhile
		_, err = file.Write(make([]byte, 4096))
	}
	if closing := file.Close(); closing != nil || !errors.Is(err, syscall.ENOSPC) {
		return "", fmt.Errorf("filling the disk: %w", errors.Join(err, closing))
	}
	t.later(f.long, func() error {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // another fault may have removed it
			return fmt.Errorf("emptying the disk: %w", err)
		}
		return nil
	})
	return "the disk for checkpoints", nil
}
