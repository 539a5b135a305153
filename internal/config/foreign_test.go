package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A job that somebody else has sent is read as any other, but what it names of this host, and of what is near it, is refused
// unlooked at, and nothing of this process's environment gets into it.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"inputs/ratings.csv", "inputs/catalog.csv", "secret", "inputs2/x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("root:secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TIERML_TEST_SECRET", "hunter2")
	allow := Foreign{Allow: []string{filepath.Join(dir, "inputs"), "https://storage.example/eu"}}
	load := func(data, more, ec2 string) error {
		text := "name: real\ncloud: ec2\nresources: {count: 2, any_of: [{type: c5.large}]}\ntrain: {app: mf, data: \"" + data + "\", clocks: 4}\n" + more +
			"\nec2:\n  region: us-west-2\n  image: ami-1\n  checkpoints: s3://bucket/checkpoints\n  catalog: " + dir + "/inputs/catalog.csv\n  program: {url: s3://b/p, sha256: " +
			strings.Repeat("0a", 32) + "}\n" + ec2
		path := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadForeign(path, allow)
		return err
	}
	good := dir + "/inputs/ratings.csv"
	for _, c := range []struct{ what, data, more, ec2, want string }{
		{"an uploaded file", good, "", "", ""},
		{"a store", "s3://bucket/ratings.csv?region=eu-west-1", "", "", ""},
		{"an allowed endpoint", "s3://bucket/ratings.csv?endpoint=https%3A%2F%2Fstorage.example%2Feu", "", "", ""},
		{"an endpoint of this host", good, "", "  endpoint: http://127.0.0.1:9\n", ""},
		{"an alert", good, "alerts: {url: https://hooks.example.com/x}", "", ""},
		{"a value of its own", "s3://${BUCKET}/x", "env: {BUCKET: mine}", "", ""},

		{"a file", dir + "/secret", "", "", "names a file of the controller's host"},
		{"one that does not exist", dir + "/nothing", "", "", "names a file of the controller's host"},
		{"a neighbour of what is allowed", dir + "/inputs2/x", "", "", "names a file of the controller's host"},
		{"dots", dir + "/inputs/../secret", "", "", "names a file of the controller's host"},
		{"a relative one", "../../../../../../etc/passwd", "", "", "names a file of the controller's host"},
		{"a device", "/dev/stdin", "", "", "names a file of the controller's host"},
		{"a file by URL", "file://" + dir + "/secret", "", "", "names a place of the controller's host"},
		{"a key by URL", "gs://b/x?access_id=a&private_key_path=/etc/shadow", "", "", "has the setting access_id"},
		{"a profile", "s3://b/x?profile=admin", "", "", "has the setting profile"},
		{"an endpoint", "s3://b/x?endpoint=http%3A%2F%2F169.254.169.254", "", "", "has the setting endpoint"},
		{"an endpoint that begins alike", "s3://b/x?endpoint=https%3A%2F%2Fstorage.example.evil%2Feu", "", "", "has the setting endpoint"},
		{"the cloud's endpoint", good, "", "  endpoint: https://evil.example\n", "show its credentials"},
		{"checkpoints", good, "checkpoint: {to: " + dir + "}", "", "is a directory of the controller's host"},
		{"checkpoints by URL", good, "checkpoint: {to: \"file://" + dir + "\"}", "", "names a place of the controller's host"},
		{"a webhook's file", good, "alerts: {url_file: " + dir + "/secret}", "", "names a file of the controller's host"},
		{"a key file", good, "alerts: {url: https://h.example.com, secret_file: " + dir + "/secret}", "", "names a file of the controller's host"},
		{"metadata by alert", good, "alerts: {url: \"http://169.254.169.254/latest\"}", "", "own host or network"},
		{"metadata by name", good, "alerts: {url: \"http://metadata.google.internal/\"}", "", "own host or network"},
		{"this host by alert", good, "alerts: {url: \"http://localhost:1\"}", "", "own host or network"},
		{"a variable", "s3://b/${TIERML_TEST_SECRET}", "", "", "TIERML_TEST_SECRET"},
		{"a variable by name", good, "env: {TIERML_TEST_SECRET: }", "", "TIERML_TEST_SECRET"},
	} {
		err := load(c.data, c.more, c.ec2)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.what, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "root:") || strings.Contains(err.Error(), "no such file")) {
			t.Errorf("%s: the complaint tells of this host: %v", c.what, err)
		}
	}
}
