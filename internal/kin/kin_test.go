package kin

import (
	"os/exec"
	"runtime"
	"testing"
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
