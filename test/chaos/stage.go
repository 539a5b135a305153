package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/test/drill"
)

// stage is what faults happen to.
type stage struct {
	site  *drill.Site
	cloud *drill.Cloud
	run   *drill.Run
	out   io.Writer

	pending sync.WaitGroup
	mu      sync.Mutex
	errs    []error // of what was done later
}

// later does something after a time, in a goroutine that the stage waits for.
func (s *stage) later(after time.Duration, do func() error) {
	s.pending.Go(func() {
		time.Sleep(after)
		if err := do(); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.errs = append(s.errs, err)
		}
	})
}

// settle waits for all that was to be done later.
func (s *stage) settle() error {
	s.pending.Wait()
	return errors.Join(s.errs...)
}

func (s *stage) kill(f fault) (string, error) { return s.killOne(f, market.Spot) }

// killReliable kills a machine that no provider would have taken, with the backups that it holds.
func (s *stage) killReliable(f fault) (string, error) { return s.killOne(f, market.OnDemand) }

func (s *stage) killOne(f fault, of market.Class) (string, error) {
	m, ok, err := s.victim(f, of)
	if !ok || err != nil {
		return "", err
	}
	_ = syscall.Kill(m.pid, syscall.SIGKILL) // it may have ended
	return m.id, nil
}

func (s *stage) killHalf(f fault) (string, error) {
	list, err := s.machines(market.Spot)
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

// silence is longer than a machine may be silent: it is given up, and wakes up with work in its hands.
func (s *stage) silence(f fault) (string, error) {
	m, ok, err := s.victim(f, market.Spot)
	if !ok || err != nil {
		return "", err
	}
	return s.stopFor(m, f.long)
}

// pause is shorter: nothing may come of it. It meets reliable machines too.
func (s *stage) pause(f fault) (string, error) {
	m, ok, err := s.victim(f, market.Spot, market.OnDemand)
	if !ok || err != nil {
		return "", err
	}
	return s.stopFor(m, f.long)
}

// stopFor stops a process, with its connections open.
func (s *stage) stopFor(m machine, long time.Duration) (string, error) {
	if err := syscall.Kill(m.pid, syscall.SIGSTOP); err != nil {
		return "", nil // it has ended
	}
	s.later(long, func() error {
		_ = syscall.Kill(m.pid, syscall.SIGCONT) // it may have been killed
		return nil
	})
	return m.id, nil
}

// killController kills the controller and starts it again beside its machines. Faults that are due meanwhile come
// afterwards.
func (s *stage) killController(f fault) (string, error) {
	s.run.Signal(syscall.SIGKILL)
	<-s.run.Ended()
	time.Sleep(f.long)
	run, err := s.site.Resume(s.cloud, "chaos")
	if err != nil {
		return "", err
	}
	s.run = run
	return "the controller", nil
}

// scale asks for other numbers of machines, as people do. What cannot be is refused, and then nobody has met anything.
func (s *stage) scale(f fault) (string, error) {
	wishes := [][]string{{"--restore"}, {"--restore"}, {"--workers", "+2"}, {"--workers", "-2"}, {"--workers", "-1", "--servers", "-1"},
		{"--servers", "+1"}, {"--servers", "-1"}, {"--workers", "+1", "--servers", "+1"}}
	wish := wishes[int(f.place*float64(len(wishes)))]
	if answer, err := s.site.Ask(append([]string{"scale", s.run.Dir()}, wish...)...); err != nil {
		fmt.Fprintf(s.out, "%v  not now: %s\n", f, lastLine(answer))
		return "", nil
	}
	return strings.Join(wish, " "), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// drop breaks connections of a machine: about half of them, to its controller and to other machines.
func (s *stage) drop(f fault) (string, error) {
	m, ok, err := s.victim(f, market.Spot, market.OnDemand)
	if !ok || err != nil {
		return "", err
	}
	connections, err := connectionsOf(m.pid)
	if err != nil {
		return "", nil // it has ended
	}
	broken := 0
	for i, c := range connections {
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
}

// connectionsOf gives the local and the remote port of each TCP connection of a process.
func connectionsOf(pid int) (ports [][2]int, err error) {
	inodes := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		const established = "01"
		if len(fields) > 9 && fields[3] == established && inodes[fields[9]] {
			ports = append(ports, [2]int{port(fields[1]), port(fields[2])})
		}
	}
	return ports, nil
}

// port reads the port of an address as /proc has it.
func port(address string) int {
	_, text, _ := strings.Cut(address, ":")
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == 2 {
		return int(raw[0])<<8 | int(raw[1])
	}
	n, _ := strconv.Atoi(text)
	return n
}
