package machine

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/tiers"
)

const (
	// useEvery is the shortest pause between samples. A sample takes at most one part in useShare of the time, however many processes there
	// are.
	useEvery = 2 * time.Second
	useShare = 250
	// ticks is the kernel's unit of processor time in files, per second.
	ticks = 100
	// gpuEvery is the output interval of the driver's own program, in seconds: running it once costs next to nothing.
	gpuEvery = "5"
)

// watchUse reports the use of the machine or, if it is shared, of this process and its descendants, until ctx is done. It returns at once
// if there is no /proc.
func watchUse(ctx context.Context, whole bool, report func(tiers.Used)) {
	count := ofProcesses
	if whole {
		count = ofMachine
	}
	before, ok := count()
	if !ok {
		return
	}
	began, sampled := time.Now(), time.Now()
	var gpu gpus
	if whole {
		done := make(chan struct{})
		go func() {
			defer close(done)
			gpu.watch(ctx)
		}()
		defer func() { <-done }()
	}
	var busy float64
	timer := time.NewTimer(useEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if used, ok := count(); ok {
			share, memory := gpu.now()
			busy += share * now.Sub(sampled).Seconds()
			report(tiers.Used{Seconds: now.Sub(began).Seconds(), CPU: used.cpu - before.cpu, Memory: used.memory, GPU: busy, GPUMemory: memory,
				BytesIn: used.in - before.in, BytesOut: used.out - before.out})
		}
		sampled = now
		timer.Reset(max(useEvery, useShare*time.Since(now)))
	}
}

// used are counters since some beginning, and the present memory.
type used struct {
	cpu             float64
	memory, in, out int64
}

// ofMachine counts everything that runs here: by the control group of a container, or for the whole machine.
func ofMachine() (u used, ok bool) {
	if group, err := os.ReadFile("/sys/fs/cgroup/memory.current"); err == nil {
		u.memory = number(string(group)) - figure("/sys/fs/cgroup/memory.stat", "inactive_file")
		u.cpu = float64(figure("/sys/fs/cgroup/cpu.stat", "usage_usec")) / 1e6
	} else {
		text, err := os.ReadFile("/proc/stat")
		if err != nil {
			return used{}, false
		}
		u.cpu = busySeconds(string(text))
		u.memory = (figure("/proc/meminfo", "MemTotal:") - figure("/proc/meminfo", "MemAvailable:")) << 10
	}
	routes, _ := os.ReadFile("/proc/net/route") // without one, the network is unknown
	devices, _ := os.ReadFile("/proc/net/dev")
	u.in, u.out = outward(string(routes), string(devices))
	return u, true
}

// number reads a whole number; 0 if there is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // 0 is unknown
	return n
}

// figure returns the number after a name, in a file with one per line.
func figure(file, name string) int64 {
	text, _ := os.ReadFile(file) // 0 is unknown
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return number(f[1])
		}
	}
	return 0
}

// busySeconds sums up the processors' busy time in /proc/stat: not idle, not waiting for a disk, not stolen.
func busySeconds(stat string) float64 {
	first, _, _ := strings.Cut(stat, "\n")
	var sum int64
	for i, f := range strings.Fields(first) {
		if i == 1 || i == 2 || i == 3 || i == 6 || i == 7 { // user, nice, system, irq, softirq
			sum += number(f)
		}
	}
	return float64(sum) / ticks
}

// outward returns the bytes of the interface with the default route. Others repeat them (bridges of containers), or are local.
func outward(routes, devices string) (in, out int64) {
	name := ""
	for line := range strings.Lines(routes) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "00000000" {
			name = f[0]
		}
	}
	for line := range strings.Lines(devices) {
		device, counts, found := strings.Cut(line, ":")
		if f := strings.Fields(counts); found && name != "" && strings.TrimSpace(device) == name && len(f) > 8 {
			return number(f[0]), number(f[8])
		}
	}
	return 0, 0
}

// ofProcesses counts this process and its descendants, including ended ones that were waited for.
func ofProcesses() (u used, ok bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return used{}, false
	}
	stats := map[int64]procStat{}
	children := map[int64][]int64{}
	for _, e := range entries {
		pid := number(e.Name())
		if pid == 0 {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		s := parseStat(text)
		stats[pid] = s
		children[s.parent] = append(children[s.parent], pid)
	}
	left := []int64{int64(os.Getpid())}
	for len(left) > 0 {
		s := stats[left[0]]
		u.cpu += float64(s.ticks) / ticks
		u.memory += s.pages * int64(os.Getpagesize())
		left = append(left[1:], children[left[0]]...)
	}
	return u, u.cpu > 0
}

type procStat struct{ parent, ticks, pages int64 }

// parseStat reads /proc/PID/stat: PID (NAME) STATE PPID ..., where the name may contain anything.
func parseStat(text []byte) (s procStat) {
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 22 {
		return s
	}
	s.parent, s.pages = number(string(f[1])), number(string(f[21]))
	for _, time := range f[11:15] { // its own in user and system, and that of children that it has waited for
		s.ticks += number(string(time))
	}
	return s
}

// gpus is the present use of the machine's GPUs.
type gpus struct {
	mu     sync.Mutex
	share  map[string]float64 // by index: share of the time
	memory map[string]int64
}

// watch reads the output of NVIDIA's driver program, if installed.
func (g *gpus) watch(ctx context.Context) {
	args := []string{"--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits", "-l", gpuEvery}
	if devices, slot := os.LookupEnv(hostagent.EnvDevices); slot && devices == "" {
		return
	} else if slot {
		args = append(args, "-i", devices)
	}
	cmd := exec.CommandContext(ctx, "nvidia-smi", args...)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		g.line(lines.Text())
	}
	_ = cmd.Wait() // the figures end with it
	g.mu.Lock()
	defer g.mu.Unlock()
	g.share, g.memory = nil, nil
}

func (g *gpus) line(text string) {
	f := strings.Split(text, ",")
	if len(f) != 3 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.share == nil {
		g.share, g.memory = map[string]float64{}, map[string]int64{}
	}
	g.share[f[0]], g.memory[f[0]] = float64(number(f[1]))/100, number(f[2])<<20
}

// now returns the GPUs' mean share of busy time, and their total memory in use.
func (g *gpus) now() (share float64, memory int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for index := range g.share {
		share += g.share[index] / float64(len(g.share))
		memory += g.memory[index]
	}
	return share, memory
}
