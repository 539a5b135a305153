package prepare

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tierml/tierml/config"
	_ "github.com/tierml/tierml/providers/all"
)

// Doctor examines the cloud of shared hosts as it does that of a job.
func TestChecksOfHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.yaml")
	text := "name: shared\ncloud: kubernetes\nresources: {count: 2, any_of: [{type: pod}]}\nreliable: {count: 0}\nhosts: {keep: 1m}\n" +
		"kubernetes: {image: i, cpu: 4, memory: 8GB, region: any, nodes: plain, checkpoints: s3://b/c}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := config.LoadHosts(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range ChecksOf(job) {
		names = append(names, c.Name)
	}
	if want := []string{"credentials", "permissions", "nodes", "admission", "machines", "checkpoints", "slots"}; !slices.Equal(names, want) {
		t.Errorf("%q, not %q", names, want)
	}
}
