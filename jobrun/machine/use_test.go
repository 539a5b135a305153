package machine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/tiers"
)

func TestBusySecondsLeavesIdleTimeOut(t *testing.T) {
	if got := busySeconds("cpu  100 20 30 99999 5000 7 3 77777 0 0\ncpu0 1 1 1 1\n"); got != 1.6 {
		t.Errorf("%v s", got)
	}
}

func TestNetworkIsTheDefaultRoutes(t *testing.T) {
	const routes = "Iface\tDestination\tGateway\neth0\t00000000\t0100000A\ndocker0\t000011AC\t00000000\n"
	const devices = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
docker0: 888 1 0 0 0 0 0 0 888 1 0 0 0 0 0 0
  eth0:5000 9 0 0 0 0 0 0 7000 9 0 0 0 0 0 0
`
	if in, out := outward(routes, devices); in != 5000 || out != 7000 {
		t.Errorf("%d in, %d out", in, out)
	}
	if in, out := outward("", devices); in != 0 || out != 0 {
		t.Errorf("without a route %d in, %d out", in, out)
	}
}

func TestStatOfAProcessWithAnyName(t *testing.T) {
	got := parseStat([]byte("12 (a) S 7 8 (9)) R 34 1 1 0 -1 4194304 1 2 3 4 100 20 3 4000 20 0 1 0 999 8192 55 18446744073709551615"))
	if want := (procStat{parent: 34, ticks: 4123, pages: 55}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestUseCountsWhatTheAgentStarts: a program that has ended and been waited for counts, and so does a running one, with its memory.
func TestUseCountsWhatTheAgentStarts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	before, _ := ofProcesses()
	if err := exec.Command("bash", "-c", "for ((i = 0; i < 100000; i++)); do :; done").Run(); err != nil {
		t.Fatal(err)
	}
	ended, ok := ofProcesses()
	if !ok || ended.cpu < before.cpu+.05 {
		t.Errorf("%v s before and %v s after a program that computes", before.cpu, ended.cpu)
	}
	held := exec.Command("bash", "-c", `x=$(head -c 50000000 /dev/zero | tr "\0" x); echo; read`)
	in, err := held.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := held.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if now, _ := ofProcesses(); now.memory < ended.memory+40e6 {
		t.Errorf("%d bytes, and %d with a program that holds 50 MB", ended.memory, now.memory)
	}
	_ = in.Close()
	_ = held.Wait() // read met the end
}

// TestGPUsAreReadFromTheDriversProgram: it is started once, for a slot's own GPUs, and its output for two GPUs becomes one share and one
// memory.
func TestGPUsAreReadFromTheDriversProgram(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >>" + dir + "/calls\necho '0, 100, 1024'\necho '1, 50, 1024'\necho broken\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(hostagent.EnvDevices, "0,3")
	ctx, cancel := context.WithCancel(t.Context())
	var g gpus
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.watch(ctx)
	}()
	for deadline := time.Now().Add(time.Minute); ; {
		if share, memory := g.now(); share == .75 && memory == 2<<30 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("share %v, %d bytes", share, memory)
		}
		runtime.Gosched()
	}
	cancel()
	<-done
	if share, _ := g.now(); share != 0 {
		t.Errorf("share %v after its end", share)
	}
	if calls, _ := os.ReadFile(filepath.Join(dir, "calls")); string(calls) != "--query-gpu=index,utilization.gpu,memory.used --format=csv,noheader,nounits -l 5 -i 0,3\n" {
		t.Errorf("calls:\n%s", calls)
	}
}

func TestUseIsReportedUntilTheEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watchUse(ctx, false, func(u tiers.Used) {
		if u.Seconds < useEvery.Seconds() || u.Memory == 0 {
			t.Errorf("%+v", u)
		}
		cancel()
	})
}

// BenchmarkUse measures a sample. There is one in 250 times that, and none within two seconds.
func BenchmarkUse(b *testing.B) {
	for b.Loop() {
		ofProcesses()
	}
}
