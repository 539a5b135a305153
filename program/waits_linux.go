package program

import (
	"os"
	"strconv"
	"strings"
)

// mostThreads bounds a sample: beyond it, the threads read stand for the others.
const mostThreads = 512

// sample adds what the threads of a process and of its descendants have run and waited since the last sample.
func (w *waits) sample(pid int) {
	seen := map[int]onCPU{}
	left := []int{pid}
	for len(left) > 0 && len(seen) < mostThreads {
		folder := "/proc/" + strconv.Itoa(left[0]) + "/task/"
		left = left[1:]
		tasks, _ := os.ReadDir(folder) // none: it has ended
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			if now, ok := readOnCPU(folder + task.Name() + "/schedstat"); ok {
				w.add(w.seen[tid], now)
				seen[tid] = now
			}
			children, _ := os.ReadFile(folder + task.Name() + "/children")
			for _, child := range strings.Fields(string(children)) {
				if pid, err := strconv.Atoi(child); err == nil {
					left = append(left, pid)
				}
			}
		}
	}
	w.seen = seen
}

// readOnCPU reads a thread's schedstat: nanoseconds on a processor, nanoseconds waiting for one, and time slices.
func readOnCPU(file string) (t onCPU, ok bool) {
	text, err := os.ReadFile(file)
	f := strings.Fields(string(text))
	if err != nil || len(f) < 2 {
		return t, false
	}
	ran, _ := strconv.ParseInt(f[0], 10, 64)
	waited, _ := strconv.ParseInt(f[1], 10, 64)
	return onCPU{ran: ran, waited: waited}, true
}
