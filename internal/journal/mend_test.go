package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMend(t *testing.T) {
	const start, clock, done = `{"t":"2026-01-01T00:00:00Z","kind":"start"}` + "\n", `{"t":"2026-01-01T00:00:01Z","kind":"clock"}` + "\n", `{"t":"2026-01-01T00:00:02Z","kind":"done"}` + "\n"
	for name, c := range map[string]struct{ before, after, damaged string }{
		"whole":                 {start + clock + done, start + clock + done, ""},
		"a byte":                {start + strings.Replace(clock, ":", "\x00", 1) + done, start + done, "journal line 2 is damaged"},
		"a newline that became": {start + strings.Replace(clock, ",", "\n", 1) + done, start + done, "journal line 2 is damaged"},
		"a newline that went":   {start + strings.TrimSuffix(clock, "\n") + done + done, start + done, "journal line 2 is damaged"},
		"torn too":              {start + "garbage\n" + done[:9], start + done[:9], "journal line 2 is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			damaged, err := Repair(path)
			if err != nil {
				t.Fatal(err)
			}
			after, _ := os.ReadFile(path)
			kept, err := os.ReadFile(path + ".damaged")
			if string(after) != c.after {
				t.Errorf("mended to %q", after)
			}
			if c.damaged == "" {
				if damaged != nil || !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("damaged %v, kept %q", damaged, kept)
				}
				return
			}
			if len(damaged) == 0 || !strings.HasPrefix(damaged[0].Error(), c.damaged) || string(kept) != c.before {
				t.Errorf("damaged %v, kept %q", damaged, kept)
			}
			if left, err := filepath.Glob(path + ".mended*"); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte("garbage\n"+clock), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(path); err == nil || !strings.Contains(err.Error(), "first line") {
		t.Errorf("a journal without its first line: %v", err)
	}
}
