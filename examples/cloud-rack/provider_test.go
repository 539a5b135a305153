package rack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/providers/boot/boottest"
)

const jobFile = `name: cellar
cloud: rack
resources: {count: 2, any_of: [{type: pc}]}
heartbeat: 500ms
train:
  app: mf
  data: ratings.csv
  clocks: 12
  splits: 6
  partitions: 4
  params: {rank: 2}
rack:
  region: cellar
  machines: 3
  program: {url: %[1]s/tierml, sha256: %[2]s}
  checkpoints: %[3]s
  endpoint: %[1]s
  listen: 127.0.0.1:0
`

// A provider is this folder and its line in providers/all: the program that is built with both plans for it, checks whether all is
// there, and trains on its machines.
func TestANewProvider(t *testing.T) {
	boottest.Need(t, "bash", "curl", "sha256sum", "go")
	dir := t.TempDir()
	binary := filepath.Join(dir, "tierml")
	build := exec.Command("go", "build", "-tags", "rack", "-o", binary, "github.com/tierml/tierml/cmd/tierml")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := []byte("#!/bin/bash\nexec " + binary + " \"$@\"\n")
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }))
	defer served.Close()
	sum := sha256.Sum256(program)
	var ratings strings.Builder
	ratings.WriteString("user,item,rating\n")
	for i := range 600 {
		fmt.Fprintf(&ratings, "%d,%d,%d\n", i%30, i/30, 1+i%5)
	}
	for name, text := range map[string]string{"ratings.csv": ratings.String(),
		"job.yaml": fmt.Sprintf(jobFile, served.URL, hex.EncodeToString(sum[:]), filepath.Join(dir, "saved"))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tierml := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("tierml %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"plan", "job.yaml"}, "The rack has 3 machines."},
		{[]string{"doctor", "job.yaml"}, "none are needed for 3 machines"},
		{[]string{"run", "-y", "--here", "job.yaml"}, "finished"},
		{[]string{"report", "cellar-1"}, "rack-power"},
		{[]string{"leaks", "job.yaml"}, "No machine of cluster tierml in cellar is left."},
	} {
		if out := tierml(c.args...); !strings.Contains(out, c.words) {
			t.Errorf("tierml %s does not say %q:\n%s", strings.Join(c.args, " "), c.words, out)
		}
	}
}
