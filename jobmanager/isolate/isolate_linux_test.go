package isolate

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A front that was killed leaves its sockets: the next one removes them, and listens at the same paths. None is in a folder of all users,
// and long folder names do not matter.
func TestNextFrontRemovesWays(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	home := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	if err := os.Mkdir(home, 0o711); err != nil {
		t.Fatal(err)
	}
	listen := func(w ways) *net.UnixListener {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.addressOf("vision"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
	killed, err := openWays(home)
	if err != nil {
		t.Fatal(err)
	}
	defer killed.Close()
	listen(killed)
	if err := os.WriteFile(filepath.Join(home, waysDir, "of a removed group"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := openWays(home)
	if err != nil {
		t.Fatal(err)
	}
	listener := listen(next)
	if info, err := os.Stat(filepath.Join(home, waysDir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Join(home, waysDir)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	came, err := net.Dial("unix", next.addressOf("vision"))
	if err != nil {
		t.Fatal(err)
	}
	defer came.Close()
	if at, err := listener.Accept(); err != nil {
		t.Error(err)
	} else {
		_ = at.Close()
	}
	_ = listener.Close()
	next.close()
	for _, dir := range []string{home, temporary} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", dir, left, err)
		}
	}
}
