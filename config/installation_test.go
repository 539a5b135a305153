package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A job server that is started with a job file accepts jobs that name the file's own endpoints, and no others.
func TestEndpointsAreAllowed(t *testing.T) {
	file := func(ec2 string) string {
		path := filepath.Join(t.TempDir(), "job.yaml")
		text := "name: real\ncloud: ec2\nresources: {count: 2, any_of: [{type: c5.large}]}\ntrain: {app: mf, data: s3://b/x, clocks: 4}\n" +
			"ec2:\n  region: us-west-2\n  image: ami-1\n  program: {url: s3://b/p, sha256: " + strings.Repeat("0a", 32) + "}\n" + ec2
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	endpoints := func(path string) ([]string, error) {
		job, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return job.Endpoints()
	}
	if got, err := endpoints(file("  checkpoints: s3://b/c\n")); err != nil || len(got) > 0 {
		t.Errorf("the provider's own: %v, %v", got, err)
	}
	own := file("  checkpoints: s3://b/c?endpoint=https%3A%2F%2Fstore.example%3A9000%2Feu\n  endpoint: https://cloud.example\n")
	allow, err := endpoints(own)
	if want := []string{"https://cloud.example", "https://store.example:9000/eu"}; err != nil || !slices.Equal(allow, want) {
		t.Fatalf("%v, %v; want %v", allow, err, want)
	}
	if _, err := LoadForeign(own, Foreign{}); err == nil {
		t.Error("the endpoints are allowed without a word of the owner's")
	}
	if _, err := LoadForeign(own, Foreign{Allow: allow}); err != nil {
		t.Error(err)
	}
	other := file("  checkpoints: s3://b/c?endpoint=https%3A%2F%2Fstore.example%3A9001%2Feu\n  endpoint: https://cloud.example\n")
	if _, err := LoadForeign(other, Foreign{Allow: allow}); err == nil {
		t.Error("another endpoint is allowed")
	}
	// Text that a shell or systemd would read differently is refused.
	for _, address := range []string{"https://s.example/'$(x)'", "https://s.example/%25n", "https://s.example/a,b", "s.example"} {
		escaped := strings.NewReplacer("%", "%25", "$", "%24", "'", "%27", ":", "%3A", "/", "%2F").Replace(address)
		if got, err := endpoints(file("  checkpoints: s3://b/c?endpoint=" + escaped + "\n")); err == nil || !strings.Contains(err.Error(), "ec2.checkpoints: names an endpoint") {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
}
