package program

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// canary is a secret that must not appear anywhere.
const canary = "hf_CANARYcanaryCANARY"

// A program has its secrets in its environment, and they are nowhere else: not in the store, the machine's files, the log (though the
// program prints them), a command line, or an event.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	var log bytes.Buffer
	s := &site{t: t, dir: t.TempDir(), store: filepath.Join(t.TempDir(), "store")}
	m, err := New(Config{Dir: s.dir, Report: s.report, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Spec: Spec{
		Store: s.store, State: "state", OnNotice: "echo hook $TOKEN",
		Setup: `test "$TOKEN" = ` + reversed(canary) + ` || test -n "$TOKEN"; set -x; echo "setup $TOKEN"`,
		Run:   "echo \"$TOKEN\" | cut -c 4- | tr a-z A-Z > state/proof\necho \"it is $TOKEN and $TOKEN\"; printf %s \"${TOKEN:0:7}\"; sleep 0.01; echo \"${TOKEN:7}\"; echo > ready; sleep 1000",
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Machine = m
	t.Cleanup(m.Close)
	s.begin(Start{Attempt: 1, Secrets: map[string]string{"TOKEN": canary}})
	s.appears("ready")
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v %v", lines, err)
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s is %q", name, text)
		}
	}
	s.Stop(0, true)
	s.exit(1)
	if got := s.appears("state/proof"); got != "CANARYCANARYCANARY\n" {
		t.Errorf("the program saw %q", got)
	}
	if text := s.log("rank-0", 1); !strings.Contains(text, "it is *** and ***\n***\n") || !strings.Contains(text, "setup ***") {
		t.Errorf("the log is %q", text)
	}
	for _, dir := range []string{s.dir, s.store} {
		if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if bytes.Contains(text, []byte(canary)) {
				t.Errorf("%s has the secret", name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(log.String()+fmt.Sprintf("%+v", s.all()), canary) {
		t.Error("a report or our log has the secret")
	}
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// However a stream is split, only the secrets change.
func FuzzMasker(f *testing.F) {
	f.Add("a secret1 and secret12, secsecret1", "secret1", "secret12", uint8(3))
	f.Add("aaaaaaaaaaaaa", "aaaaaa", "aaaaab", uint8(1))
	f.Fuzz(func(t *testing.T, text, one, two string, piece uint8) {
		if len(one) < leastSecret || len(two) < leastSecret || strings.Contains(text+one+two, "*") || len(text) > 1<<12 {
			return
		}
		long, short := one, two
		if len(two) > len(one) {
			long, short = two, one
		}
		m := masker{secrets: [][]byte{[]byte(long), []byte(short)}}
		var got strings.Builder
		for rest := text; rest != ""; {
			n := min(len(rest), int(piece)+1)
			got.Write(m.feed([]byte(rest[:n]), false))
			rest = rest[n:]
		}
		got.Write(m.feed(nil, true))
		if want := strings.NewReplacer(long, "***", short, "***").Replace(text); got.String() != want && strings.Contains(got.String(), short) {
			t.Errorf("%q of %q became %q, want %q", []string{one, two}, text, got.String(), want)
		}
		if strings.Contains(got.String(), long) || strings.Contains(got.String(), short) {
			t.Errorf("%q of %q became %q", []string{one, two}, text, got.String())
		}
	})
}
