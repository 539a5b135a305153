package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tierml/tierml/internal/rundir"
)

// houseKind is a way of disturbing job servers. Its function returns what it hit; nothing = there was no target.
type houseKind struct {
	name   string
	weight int
	do     func(ctx context.Context, h *house, random *rand.Rand) (whom string, long time.Duration, err error)
}

const agentCommand = "agent"

var homeOfMachine = regexp.MustCompile(`\bHOME=[^\x00]*`)

var houseKinds = []houseKind{
	{"kill-server", 4, killJobServer},
	{"kill-run", 6, killOne(func(p belonging) bool {
		return p.ours && slices.Contains(p.args, "run") && slices.Contains(p.args, "none")
	})},
	{"kill-hosts", 2, killOne(func(p belonging) bool { return p.ours && len(p.args) > 1 && p.args[1] == "hosts" })}, // with their cloud
	{"kill-agent", 6, killOne(func(p belonging) bool { return p.ours && len(p.args) > 1 && p.args[1] == agentCommand })},
	{"kill-guard", 3, killOne(func(p belonging) bool { return slices.Contains(p.args, "tierml-guard") })},
	{"evict", 8, evictSome},
	{"stop", 3, stopOne},
	{"disk-full", 2, diskFull},
	{"store-away", 2, storeAway},
	{"descriptors", 3, noDescriptors},
}

// play injects faults at random instants, each kind at least once if it finds a target.
func (h *house) play(ctx context.Context, random *rand.Rand, faults int, length time.Duration) error {
	var drawn []houseKind
	for len(drawn) < faults {
		for _, k := range houseKinds {
			drawn = append(drawn, slices.Repeat([]houseKind{k}, k.weight)...)
		}
	}
	random.Shuffle(len(drawn), func(a, b int) { drawn[a], drawn[b] = drawn[b], drawn[a] })
	drawn = append(slices.Clone(houseKinds), drawn[:max(0, faults-len(houseKinds))]...)
	random.Shuffle(len(drawn), func(a, b int) { drawn[a], drawn[b] = drawn[b], drawn[a] })
	pause := length / time.Duration(len(drawn))
	for n, k := range drawn {
		at := h.began.Add(10*time.Second + time.Duration(n)*pause + time.Duration(random.Int64N(int64(pause))))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(at)):
		}
		now := time.Now()
		whom, long, err := k.do(ctx, h, random)
		if err != nil {
			return fmt.Errorf("fault %d, %s: %w", n+1, k.name, err)
		}
		if whom == "" {
			continue
		}
		h.mu.Lock()
		h.met = append(h.met, met{k.name, whom, now, now.Add(long)})
		h.mu.Unlock()
		fmt.Fprintf(h.out, "%6.1fs %-12s %s\n", now.Sub(h.began).Seconds(), k.name, whom)
	}
	return nil
}

func (h *house) kindsMet() map[string]int {
	all := map[string]int{}
	for _, m := range h.met {
		all[m.kind]++
	}
	return all
}

// later undoes something after a while.
func (h *house) later(long time.Duration, do func()) {
	h.pending.Go(func() {
		time.Sleep(long)
		do()
	})
}

func killJobServer(ctx context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
	s := h.servers[random.IntN(len(h.servers))]
	s.process.signal(syscall.SIGKILL)
	<-s.process.ended
	time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	return s.name, 0, s.begin(ctx)
}

func killOne(of func(belonging) bool) func(context.Context, *house, *rand.Rand) (string, time.Duration, error) {
	return func(_ context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
		all := slices.DeleteFunc(h.belongings(), func(p belonging) bool { return !of(p) })
		if len(all) == 0 {
			return "", 0, nil
		}
		p := all[random.IntN(len(all))]
		whom := p.args[len(p.args)-1]
		if variables, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid)); whom == agentCommand {
			whom = homeOfMachine.FindString(string(variables)) // the machine is its last part
		}
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		return fmt.Sprintf("%d, %s", p.pid, whom), 0, nil
	}
}

// some returns a job whose run is in progress, judging by the end of its log.
func (h *house) some(random *rand.Rand) (houseJob, bool) {
	all := slices.DeleteFunc(slices.Clone(h.jobs), func(j houseJob) bool {
		_, err := os.Stat(filepath.Join(h.folder(j), rundir.ReportJSON))
		return err == nil
	})
	if len(all) == 0 {
		return houseJob{}, false
	}
	return all[random.IntN(len(all))], true
}

// evictSome has a run's cloud evict machines with a notice.
func evictSome(_ context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
	j, ok := h.some(random)
	if !ok {
		return "", 0, nil
	}
	folder := h.folder(j)
	if j.server == 1 {
		folder = h.path(h.servers[1].name, "runs", "shared-1")
	}
	log, _ := os.ReadFile(filepath.Join(folder, rundir.LogsDir, "controller.log"))
	at := bytes.LastIndex(log, []byte("endpoint=http://"))
	if at < 0 {
		return "", 0, nil
	}
	endpoint := strings.Fields(string(log[at+len("endpoint="):]))[0]
	step := []string{"evict random", "evict random", "evict all"}[random.IntN(3)]
	response, err := http.Post(endpoint+"/_control/do", "application/json", strings.NewReader(`{"step": "`+step+`"}`))
	if err != nil {
		return "", 0, nil // its run is being restarted
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", 0, nil
	}
	return j.name + ": " + step, 0, nil
}

// stopOne stops a run cleanly and resumes it.
func stopOne(ctx context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
	j, ok := h.some(random)
	if !ok {
		return "", 0, nil
	}
	s := h.servers[j.server]
	if _, err := s.post(j.name+"-1", "stop"); err != nil {
		return "", 0, nil // it has ended, or the server cannot accept that now
	}
	h.pending.Go(func() {
		for until := time.Now().Add(4 * patience); ctx.Err() == nil && time.Now().Before(until); time.Sleep(time.Second) {
			if said, err := s.post(j.name+"-1", "resume"); err == nil || strings.Contains(said, "it is finished") {
				return
			}
		}
	})
	return j.name, 0, nil
}

// post requests a change of a job; unlike the commands it does not follow the job.
func (s *jobServer) post(run, change string) (said string, err error) {
	token, err := os.ReadFile(s.path(s.name, "token"))
	if err != nil {
		return "", err
	}
	request, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/api/v1/jobs/"+run+"/"+change, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = errors.New(response.Status)
	}
	return string(text), err
}

// diskFull leaves the servers and all run directories without room for up to a minute.
func diskFull(_ context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
	path := h.path(diskDir, "filler")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", 0, nil // it is full already
	}
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if closing := file.Close(); closing != nil || !errors.Is(err, syscall.ENOSPC) {
		return "", 0, fmt.Errorf("filling the disk: %w", errors.Join(err, closing))
	}
	long := 10*time.Second + time.Duration(random.IntN(51))*time.Second
	h.later(long, func() { _ = os.Remove(path) })
	return fmt.Sprintf("for %v", long), long, nil
}

func storeAway(_ context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
	long := 10*time.Second + time.Duration(random.IntN(51))*time.Second
	h.away.Store(true)
	h.later(long, func() { h.away.Store(false) })
	return fmt.Sprintf("for %v", long), long, nil
}

// noDescriptors leaves a job server or a run no file descriptors beyond those in use.
func noDescriptors(_ context.Context, h *house, random *rand.Rand) (string, time.Duration, error) {
	all := slices.DeleteFunc(h.belongings(), func(p belonging) bool {
		return !p.ours || len(p.args) < 2 || !slices.Contains([]string{"server", "run", "hosts"}, p.args[1])
	})
	if len(all) == 0 {
		return "", 0, nil
	}
	p := all[random.IntN(len(all))]
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return "", 0, nil // it has ended
	}
	var before unix.Rlimit
	if err := unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return "", 0, nil // likewise
	}
	few := unix.Rlimit{Cur: uint64(len(open)), Max: before.Max} // raising it again requires a capability
	if err := unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &few, nil); errors.Is(err, unix.ESRCH) {
		return "", 0, nil
	} else if err != nil {
		return "", 0, err
	}
	long := 3*time.Second + time.Duration(random.IntN(10))*time.Second
	h.later(long, func() { _ = unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &before, nil) }) // it may have ended
	return fmt.Sprintf("%d %.40s for %v", p.pid, strings.Join(p.args[1:], " "), long), long, nil
}
