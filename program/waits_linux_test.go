package program

import (
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Processes that could run count whole, however many processors there are and whatever else runs: that is what a program would use. A single one
// counts as at most one.
func TestThreadsThatWaitForAProcessorCount(t *testing.T) {
	for _, spinning := range []int{1, 3 * runtime.NumCPU()} {
		cmd := exec.Command("bash", "-c", strings.Repeat("while :; do :; done & ", spinning)+"wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var w waits
		for w.sample(cmd.Process.Pid); len(w.seen) < spinning+1; w.sample(cmd.Process.Pid) { // all have begun
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // they run the loop
		w.sample(cmd.Process.Pid)
		began, before := time.Now(), w.ran+w.waited
		for time.Since(began) < 2*time.Second {
			time.Sleep(100 * time.Millisecond)
			w.sample(cmd.Process.Pid)
		}
		cores := float64(w.ran+w.waited-before) / float64(time.Since(began))
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if most := float64(spinning); cores < .6*most || cores > 1.2*most {
			t.Errorf("%d processes that spin would use %.2f cores", spinning, cores)
		}
		if share := w.share(); spinning > 1 && share < .5 {
			t.Errorf("%d processes on %d processors waited %.2f s for each second they ran", spinning, runtime.NumCPU(), share)
		}
	}
}

// A number that another thread has taken over begins anew.
func TestWaitsOfReusedNumbers(t *testing.T) {
	var w waits
	w.add(onCPU{ran: 100, waited: 50}, onCPU{ran: 110, waited: 55})
	w.add(onCPU{ran: 100, waited: 50}, onCPU{ran: 10, waited: 5})
	if w.ran != 20 || w.waited != 10 || w.share() != .5 {
		t.Errorf("ran %d, waited %d", w.ran, w.waited)
	}
}
