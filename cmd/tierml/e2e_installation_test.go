package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// A job file of two lines runs on EC2: the installation, in a bucket, has the program, the places and the network; the environment has the
// region, and Amazon the image.
func TestTwoLinesOnEC2(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, and machines' first script runs it", tool)
		}
	}
	t.Parallel()
	s := newSite(t)
	t.Cleanup(s.killBelow)
	s.write("now.csv", "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n"+
		"2026-01-01T00:00:00Z,us-west-1a,m3.large,Linux/UNIX,0.03\n")
	s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\nus-west-1,m3.large,2,7.5,0.154\n")
	program := []byte("#!/bin/bash\nexec " + builtBinary(t) + " \"$@\"\n")
	downloads := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }))
	defer downloads.Close()
	store := s3mem.New()
	if err := store.CreateBucket("saved"); err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(gofakes3.New(store).Server())
	defer bucket.Close()
	in := func(key string) string {
		return "s3://saved/" + key + "?region=us-east-1&anonymous=true&endpoint=" + bucket.URL
	}
	cloud, endpoint := s.amazon()
	sum := sha256.Sum256(program)
	settings := fmt.Appendf(nil, `"ec2":
  "checkpoints": %q
  "cluster": "prod"
  "program": {"url": "%s/tierml", "sha256": %q}
  "catalog": %q
  "listen": "127.0.0.1:0"
  "endpoint": %q
`, in("runs"), downloads.URL, hex.EncodeToString(sum[:]), s.path("catalog.csv"), endpoint)
	if _, err := store.PutObject("saved", "installation.yaml", nil, bytes.NewReader(settings), int64(len(settings)), nil); err != nil {
		t.Fatal(err)
	}
	s.write("two.yaml", fmt.Sprintf("run: echo hello from EC2\nec2: {installation: %q}\n", in("installation.yaml")))
	ask := func(region string, args ...string) *process {
		cmd := exec.Command(builtBinary(t), args...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+s.path("config"), "AWS_REGION="+region)
		return s.startCommand(cmd)
	}
	said := ask("us-west-1", "run", "-y", "--plain", "two.yaml").wait(0)
	for _, words := range []string{"hello from EC2", "two: finished", "ec2.region: us-west-1, by AWS_REGION", "resources.type: m3.large, the smallest on sale"} {
		if !strings.Contains(said, words) {
			t.Errorf("%q is not in\n%s", words, said)
		}
	}
	s.write("two.yaml", fmt.Sprintf("run: echo hello from EC2\nec2: {installation: %q}\n", in("elsewhere.yaml")))
	if said := ask("us-west-1", "plan", "two.yaml").wait(cli.ExitUsage); !strings.Contains(said, "two.yaml:2:21: ec2.installation: cannot be used: ") {
		t.Errorf("without an installation it says\n%s", said)
	}
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}
