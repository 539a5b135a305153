package rack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/boot/boottest"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

// Every cloud passes the same exam.
func TestExam(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
		spot := market.Pool{Provider: name, Region: "cellar", Zone: "cellar-a", Type: kind, Class: market.Spot}
		onDemand := spot
		onDemand.Class = market.OnDemand
		machines := newRack(t.TempDir(), 10)
		return provisionertest.Subject{Cloud: machines.Cluster("blue"), Other: machines.Cluster("red"), Spot: spot, OnDemand: onDemand, Unknown: "rack-9999"}
	})
}

const jobFile = `name: cellar
cloud: rack
resources: {count: 2, any_of: [{type: pc}]}
heartbeat: 500ms
train: {app: mf, data: ratings.csv, clocks: 12, splits: 6, partitions: 4, params: {rank: 2}}
rack:
  region: cellar
  machines: 3
  program: {url: %[1]s/tierml, sha256: %[2]s}
  checkpoints: %[3]s
  endpoint: %[1]s
  listen: 127.0.0.1:0
`

// A provider is this folder and its line in providers/all: the program built with both plans for it, checks its account, and trains on its
// machines.
func TestANewProvider(t *testing.T) {
	boottest.Need(t, "bash", "curl", "sha256sum", "go")
	dir := t.TempDir()
	binary := filepath.Join(dir, "tierml")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", withLine(t, dir, `	_ "github.com/tierml/tierml/examples/cloud-rack"`), "-o", binary, "github.com/tierml/tierml/cmd/tierml")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := []byte("#!/bin/bash\nexec " + binary + " \"$@\"\n")
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }))
	defer served.Close()
	sum := sha256.Sum256(program)
	ratings := "user,item,rating\n"
	for i := range 600 {
		ratings += fmt.Sprintf("%d,%d,%d\n", i%30, i/30, 1+i%5)
	}
	write(t, filepath.Join(dir, "ratings.csv"), ratings)
	write(t, filepath.Join(dir, "job.yaml"), fmt.Sprintf(jobFile, served.URL, hex.EncodeToString(sum[:]), filepath.Join(dir, "saved")))
	for _, c := range []struct{ args, words string }{
		{"plan job.yaml", "Prices: what power costs"},
		{"doctor job.yaml", "program"},
		{"run -y --here job.yaml", "finished"},
		{"report cellar-1", "rack-power"},
		{"leaks job.yaml", "No machine of cluster tierml in cellar is left."},
	} {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(c.args)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.words) {
			t.Errorf("tierml %s: %v, want %q in it:\n%s", c.args, err, c.words, out)
		}
	}
}

// withLine returns a file for go build -overlay that adds a line to the registry.
func withLine(t *testing.T, dir, line string) string {
	t.Helper()
	registry, err := filepath.Abs("../../providers/all/all.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(registry)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(text), "import (\n")
	write(t, filepath.Join(dir, "all.go"), before+"import (\n"+line+"\n"+after)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {registry: filepath.Join(dir, "all.go")}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(overlay))
	return filepath.Join(dir, "overlay.json")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
