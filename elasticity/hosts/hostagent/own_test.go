package hostagent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/provisioner"
)

// Slots of one user's jobs run as users of their own, with their own GPUs and a limit of processes (internal/confine tests what they can do
// to each other). With its slot every process ends, even one that has left its group and session.
func TestSlotsAreUsersOfTheirOwn(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux, which starts processes of other users")
	}
	home := t.TempDir()
	if err := os.Chmod(filepath.Dir(home), 0o711); err != nil {
		t.Fatal(err)
	}
	const stays = `setsid sleep 987654 & { id -u; ulimit -u; echo $CUDA_VISIBLE_DEVICES; } >tmp/about; mv tmp/about about; exec sleep 987654`
	a := &agent{cfg: Config{Home: home, Log: slog.New(slog.DiscardHandler), Users: 1_500_000_000, Command: []string{"bash", "-c", stays}},
		running: map[provisioner.InstanceID]*process{}, gone: map[provisioner.InstanceID]string{}, over: make(chan end)}
	for i, gpus := range []int{2, 1, 0} {
		slot := provisioner.InstanceID(fmt.Sprintf("slot-%d", i))
		if err := a.start(desk.Order{Slot: slot, Job: "job", Size: hosts.Size{VCPU: 1, MemoryMiB: 500, GPUs: gpus}}, hosts.Size{VCPU: 3, GPUs: 4}); err != nil {
			t.Fatal(err)
		}
		want, file := fmt.Sprintf("%d\n%d\n%s\n", a.cfg.Users+i, processesPerVCPU, []string{"0,1", "2", ""}[i]), filepath.Join(a.running[slot].dir, "about")
		var got []byte
		for deadline := time.Now().Add(time.Minute); len(got) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			got, _ = os.ReadFile(file) // not there yet
		}
		if string(got) != want {
			t.Errorf("%s is of user, may have processes, has GPUs: %q, not %q", slot, got, want)
		}
	}
	for _, p := range a.running {
		a.stop(p)
	}
	for len(a.running) > 0 {
		a.forget(<-a.over)
	}
	a.waiting.Wait()
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, _ := os.ReadFile(file) // it may have ended
		info, err := os.Stat(file)
		if err == nil && info.Sys().(*syscall.Stat_t).Uid/10 == uint32(a.cfg.Users/10) {
			t.Errorf("%s is left of a slot: %s", file, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
}
