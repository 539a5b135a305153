package fakecloud

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What a killed cloud left is removed by the next one, except homes in which a process lives, or which were just created; the last machine
// removes the common folder.
func TestHomesOfKilledClouds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	root := homesOf(os.TempDir(), os.Getuid())
	home, remove, err := newHome("i-0", "")
	if err != nil || filepath.Dir(home) != root {
		t.Fatal(home, err)
	}
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"i-left", "i-lives"} {
		if err := os.MkdirAll(filepath.Join(root, name, "cache"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(root, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	orphan := exec.Command("sleep", "60")
	orphan.Env = []string{"HOME=" + filepath.Join(root, "i-lives")}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = orphan.Process.Kill(); _ = orphan.Wait() }()
	sweep(root)
	_, known := homesInUse()
	for name, want := range map[string]bool{"i-left": !known, "i-lives": true, filepath.Base(home): true} {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != want {
			t.Errorf("%s: there is %v", name, err == nil)
		}
	}
	if err := os.RemoveAll(filepath.Join(root, "i-lives")); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Join(root, "i-left"))
	remove()
	if _, err := os.Stat(root); err == nil {
		t.Error("the folder of all homes stays")
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, root); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newHome("i-1", ""); err == nil {
		t.Error("a link of another user's was taken for the folder of homes")
	}
}
