package heap

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// mapped returns how much of the program is resident, in KiB.
func mapped(t *testing.T) (kB int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		switch name, rest, _ := strings.Cut(line, ":"); name {
		case "Rss":
			_, _ = fmt.Sscan(rest, &n)
			kB += n
		case "Anonymous":
			_, _ = fmt.Sscan(rest, &n)
			kB -= n
		}
	}
	return kB
}

// Pages of the program are released, and come back unchanged.
func TestShed(t *testing.T) {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	written := map[string]int{"a": 1} // the program's own data stays
	before := mapped(t)
	Shed()
	after := mapped(t)
	if after >= before {
		t.Errorf("%d KiB of the program are mapped, and were %d", after, before)
	}
	if again, err := os.ReadFile("/proc/self/exe"); err != nil || len(again) != len(program) || written["a"] != 1 {
		t.Errorf("the program is not what it was: %v", err)
	}
}
