package config

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A foreign job is read like any other, but paths on this host and its network are rejected without access, and nothing of this process's
// environment gets into it.
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
		{"an allowed endpoint of the cloud", good, "", "  endpoint: https://storage.example/eu\n", ""},
		{"an alert", good, "alerts: {url: https://hooks.example.com/x}", "", ""},
		{"a value of its own", "s3://${BUCKET}/x", "env: {BUCKET: mine}", "", ""},

		{"a file", dir + "/secret", "", "", "names a file of the job server's host"},
		{"one that does not exist", dir + "/nothing", "", "", "names a file of the job server's host"},
		{"a neighbour of what is allowed", dir + "/inputs2/x", "", "", "names a file of the job server's host"},
		{"dots", dir + "/inputs/../secret", "", "", "names a file of the job server's host"},
		{"a relative one", "../../../../../../etc/passwd", "", "", "names a file of the job server's host"},
		{"a device", "/dev/stdin", "", "", "names a file of the job server's host"},
		{"a file by URL", "file://" + dir + "/secret", "", "", "names a file of the job server's host"},
		{"a key by URL", "gs://b/x?access_id=a&private_key_path=/etc/shadow", "", "", "has the setting access_id"},
		{"a file by URL in capitals", "FILE://" + dir + "/secret", "", "", "names a file of the job server's host"},
		{"a file by URL with escapes", "file://" + strings.ReplaceAll(dir, "/", "%2F") + "/secret", "", "", "is not a URL|names a file of the job server's host"},
		{"a file of another host", "file://localhost" + dir + "/secret", "", "", "write file:///PATH"},
		{"dots by URL", "file://" + dir + "/inputs/../secret", "", "", "names a file of the job server's host"},
		{"dots by URL, escaped", "file://" + dir + "/inputs/%2e%2e/secret", "", "", "names a file of the job server's host"},
		{"an uploaded file by URL", "file://" + good, "", "", ""},
		{"an endpoint, in capitals", "S3://b/x?endpoint=http%3A%2F%2F169.254.169.254", "", "", "has the setting endpoint"},
		{"a mixture", "sS3://b/x", "", "", "there is no store"},
		{"a key by URL in capitals", "GS://b/x?access_id=a&private_key_path=/etc/shadow", "", "", "has the setting access_id"},
		{"an endpoint on this host", "s3://b/x?endpoint=http%3A%2F%2F127.0.0.1:9", "", "", "has the setting endpoint"},
		{"no HTTPS", "s3://b/x?disable_https=true", "", "", "has the setting disable_https"},
		{"a role", "s3://b/x?role=arn:aws:iam::1:role/admin&region=us-east-1", "", "", "has the setting role"},
		{"a setting in capitals", "s3://b/x?ENDPOINT=https%3A%2F%2Fevil.example", "", "", "has the setting ENDPOINT"},
		{"two endpoints", "s3://b/x?endpoint=https%3A%2F%2Fstorage.example%2Feu&endpoint=https%3A%2F%2Fevil.example", "", "", "is given 2 times"},
		{"an endpoint in the region", "s3://b/x?region=evil.example%2F", "", "", "is no region"},
		{"a host in the bucket", "s3://evil.example:80/x", "", "", "write s3://BUCKET/KEY"},
		{"a user", "s3://a@b/x", "", "", "write s3://BUCKET/KEY"},
		{"no bucket", "s3:///x", "", "", "write s3://BUCKET/KEY"},
		{"another bucket by dots", "s3://b/../c/x", "", "", "leads to different objects"},
		{"an endpoint below what is allowed, left by dots", "s3://bucket/x?endpoint=https%3A%2F%2Fstorage.example%2Feu%2F..%2Fus", "", "", "has the setting endpoint"},
		{"an endpoint whose path begins alike", "s3://bucket/x?endpoint=https%3A%2F%2Fstorage.example%2Feu-evil", "", "", "has the setting endpoint"},
		{"the cloud's endpoint without a scheme", good, "", "  endpoint: //evil.example\n", "an address of the job's choice"},
		{"the cloud's endpoint in capitals", good, "", "  endpoint: HTTPS://evil.example\n", "an address of the job's choice"},
		{"the cloud's endpoint as a file", good, "", "  endpoint: FILE:///etc\n", "an address of the job's choice"},
		{"checkpoints by URL in capitals", good, "checkpoint: {to: \"FILE://" + dir + "\"}", "", "is a directory of the job server's host"},
		{"checkpoints among uploads", good, "checkpoint: {to: " + dir + "/inputs}", "", "is a directory of the job server's host"},
		{"checkpoints of the installation", good, "", "  checkpoints: FILE://" + dir + "\n", "already|job server's host|twice"},
		{"a tunnel", good, "", "  controller: {tunnel: \"sh -c touch {local}\"}\n", "says how a job server is reached"},
		{"an address as a setting", good, "", "  owner: s3://b/x\n", "is an address, where none is expected"},
		{"a profile", "s3://b/x?profile=admin", "", "", "has the setting profile"},
		{"an endpoint", "s3://b/x?endpoint=http%3A%2F%2F169.254.169.254", "", "", "has the setting endpoint"},
		{"an endpoint that begins alike", "s3://b/x?endpoint=https%3A%2F%2Fstorage.example.evil%2Feu", "", "", "has the setting endpoint"},
		{"the cloud's endpoint", good, "", "  endpoint: https://evil.example\n", "an address of the job's choice"},
		{"the cloud's endpoint on this host", good, "", "  endpoint: http://127.0.0.1:9\n", "an address of the job's choice"},
		{"a port of the job server's host", good, "", "  listen: 127.0.0.1:7071\n", "takes a port"},
		{"any port that is free", good, "", "  listen: 127.0.0.1:0\n", ""},
		{"the cloud's endpoint on this host, by name", good, "", "  endpoint: http://localhost:9\n", "an address of the job's choice"},
		{"checkpoints", good, "checkpoint: {to: " + dir + "}", "", "is a directory of the job server's host"},
		{"checkpoints by URL", good, "checkpoint: {to: \"file://" + dir + "\"}", "", "is a directory of the job server's host"},
		{"a webhook's file", good, "alerts: {url_file: " + dir + "/secret}", "", "names a file of the job server's host"},
		{"a key file", good, "alerts: {url: https://h.example.com, secret_file: " + dir + "/secret}", "", "names a file of the job server's host"},
		{"metadata by alert", good, "alerts: {url: \"http://169.254.169.254/latest\"}", "", "own host or network"},
		{"metadata by name", good, "alerts: {url: \"http://metadata.google.internal/\"}", "", "own host or network"},
		{"this host by alert", good, "alerts: {url: \"http://localhost:1\"}", "", "own host or network"},
		{"a variable", "s3://b/${TIERML_TEST_SECRET}", "", "", "TIERML_TEST_SECRET"},
		{"a variable by name", good, "env: {TIERML_TEST_SECRET: }", "", "TIERML_TEST_SECRET"},
	} {
		err := load(c.data, c.more, c.ec2)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !slices.ContainsFunc(strings.Split(c.want, "|"), func(w string) bool { return strings.Contains(err.Error(), w) })) {
			t.Errorf("%s: %v", c.what, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "root:") || strings.Contains(err.Error(), "no such file")) {
			t.Errorf("%s: the complaint tells of this host: %v", c.what, err)
		}
	}
}

// FuzzForeign: whatever a path is called, a foreign job can name no file outside the allowed ones, and no store with settings other than a
// few. The resolved job, which is what runs, gets the same verdict when it is judged again and when it is opened.
func FuzzForeign(f *testing.F) {
	dir := f.TempDir()
	for _, name := range []string{"allowed/data.csv", "secret"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "link")); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{
		"DIR/allowed/data.csv", "DIR/secret", "DIR/link", "DIR/allowed/../secret", "file://DIR/allowed/data.csv", "FILE://DIR/secret", "file://DIR/allowed/%2e%2e/secret",
		"s3://b/k", "S3://b/k?endpoint=https://evil.example", "s3://b/k?endpoint=https://ok.example/eu/x", "gs://b/k?private_key_path=/etc/shadow", "s3://b/k?region=evil.example/",
		"s3://b/k?profile=x", "s3://b/k?disable_https=T", "s3://b/k?anonymous=TRUE&use_path_style=1", "s3://b/${HOME}", "uploaded:x/y", "/dev/stdin", "s3://b/k?endpoint=https://ok.example/eu/../x",
	} {
		f.Add(name, "")
		f.Add("DIR/allowed/data.csv", name)
	}
	allowed := filepath.Join(dir, "allowed")
	foreign := &Foreign{Allow: []string{allowed, "https://ok.example/eu"}}
	nothing := func(string) (string, bool) { return "", false }
	f.Fuzz(func(t *testing.T, data, to string) {
		data, to = strings.ReplaceAll(data, "DIR", dir), strings.ReplaceAll(to, "DIR", dir)
		text := "name: x\ncloud: ec2\nresources: {count: 2, any_of: [{type: c5.large}]}\ntrain: {app: mf, data: " + strconv.Quote(data) +
			", clocks: 4}\nec2:\n  region: us-west-2\n  image: ami-1\n  checkpoints: s3://bucket/checkpoints\n  catalog: " + allowed +
			"/data.csv\n  program: {url: s3://b/p, sha256: " + strings.Repeat("0a", 32) + "}\n"
		if to != "" {
			text += "checkpoint: {to: " + strconv.Quote(to) + "}\n"
		}
		job, err := parseFor(filepath.Join(dir, "job.yaml"), []byte(text), nothing, Overrides{}, foreign)
		if err != nil {
			return
		}
		judged := []string{job.Train.Data, job.Checkpoint.To}
		for _, name := range judged {
			u, err := url.Parse(name)
			if err != nil {
				t.Fatalf("%q passes as %q: %v", data, name, err)
			}
			switch {
			case strings.Contains(name, "://"):
				if u.Scheme != "s3" && u.Scheme != "gs" || u.User != nil || u.Port() != "" {
					t.Fatalf("%q passes as %q", data, name)
				}
				for setting, values := range u.Query() {
					if len(values) != 1 || !slices.Contains([]string{"region", "anonymous", "use_path_style"}, setting) &&
						!(setting == "endpoint" && (values[0] == "https://ok.example/eu" || strings.HasPrefix(values[0], "https://ok.example/eu/") && !strings.Contains(values[0], ".."))) {
						t.Fatalf("%q, %q pass with the setting %s=%q", data, to, setting, values)
					}
				}
			case filepath.Dir(name) != allowed:
				t.Fatalf("%q, %q pass as the file %q", data, to, name)
			}
		}
		again, err := parse(filepath.Join(dir, "run.yaml"), job.Resolved(), nothing)
		if err != nil || !slices.Equal(judged, []string{again.Train.Data, again.Checkpoint.To}) {
			t.Fatalf("judged %q; what runs names %+v, %v", judged, again, err)
		}
	})
}
