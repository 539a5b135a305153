package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A job server makes the same assumptions as a local run, reads the sample's prices again for the bill, and names the lines of the user's
// own file.
func TestShortFileAtJobServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	t.Cleanup(s.killBelow)
	if err := os.Mkdir(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := sharing{site: s, address: "127.0.0.1:" + strconv.Itoa(freePort(t))}
	c.serve("--allow", "programs")

	s.write("one.yaml", "run: printf hello\n")
	said := c.ask("run", "-y", "one.yaml").wait(0)
	for _, want := range []string{"resources.type: c3.xlarge, the smallest on sale", "rank-0 | hello", "the journal's total equals the cloud's own bill"} {
		if !strings.Contains(said, want) {
			t.Errorf("the run does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "warning") {
		t.Errorf("the report warns:\n%s", said)
	}

	s.write("bad.yaml", "# a comment\n\nrun: echo hello\nalerts:\n  url: http://10.0.0.1/x\n")
	if said, want := c.ask("run", "-y", "bad.yaml").wait(2), "bad.yaml:5:8: alerts.url: is an address of the job server's own host"; !strings.HasPrefix(said, want) {
		t.Errorf("refused with %q, want %q", said, want)
	}
	if said := c.ask("rm", "-y", "one").wait(0); !strings.Contains(said, "Deleted one-1.") {
		t.Error(said)
	}
	c.server.signal(syscall.SIGTERM)
	c.server.wait(0)
}
