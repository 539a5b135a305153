package kin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	start := func(home string) *exec.Cmd {
		cmd := exec.Command("setsid", "sh", "-c", "sleep 987 & exec sleep 987")
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	home, other := t.TempDir(), t.TempDir()
	mine, theirs := start(home), start(other)
	reaped := make(chan error, 1)
	go func() { reaped <- mine.Wait() }()
	if !End(home) || len(Of(home)) > 0 {
		t.Errorf("processes %v are left", Of(home))
	}
	if err := <-reaped; err == nil {
		t.Error("it ended by itself")
	}
	if len(Of(other)) == 0 {
		t.Error("processes of another home were ended, too")
	}
	End(other)
	_ = theirs.Wait() // it was killed
}

// A process whose environment cannot be seen while it executes another program is ended, too.
func TestEndWhileExecuting(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	for i := range 100 {
		home := t.TempDir()
		cmd := exec.Command("sh", "-c", "setsid sleep 987 & exit 0")
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i%20) * 50 * time.Microsecond)
		if !End(home) {
			t.Fatalf("processes %v are left", Of(home))
		}
		time.Sleep(2 * time.Millisecond)
		if left := Of(home); len(left) > 0 {
			End(home)
			t.Fatalf("try %d: processes %v are left", i, left)
		}
	}
}

// Children that nobody waits for are removed, and others are left to those who do.
func TestReap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	orphan, waited := exec.Command("true"), exec.Command("true")
	if err := errors.Join(orphan.Start(), waited.Start()); err != nil {
		t.Fatal(err)
	}
	there := func(c *exec.Cmd) bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", c.Process.Pid))
		return err == nil
	}
	for deadline := time.Now().Add(time.Minute); there(orphan) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		Reap(func(pid int) bool { return pid != orphan.Process.Pid })
	}
	if there(orphan) {
		t.Error("what is left of a child stays")
	}
	if err := waited.Wait(); err != nil {
		t.Errorf("the other was removed, too: %v", err)
	}
	_ = orphan.Process.Release() // nothing is left of it
}
