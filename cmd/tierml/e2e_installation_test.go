package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// A job file of two lines runs on EC2: the installation, in a bucket, supplies the program, the paths and the network; the environment
// supplies the region, and Amazon the image.
func TestTwoLinesOnEC2(t *testing.T) {
	s, a := newAccount(t)
	cloud, endpoint := s.amazon()
	settings := fmt.Appendf(nil, `"ec2":
  "checkpoints": %q
  "cluster": "prod"
  "program": {"url": "%s/tierml", "sha256": %q}
  "catalog": %q
  "listen": "127.0.0.1:0"
  "endpoint": %q
`, a.at("runs"), a.program, a.sum, s.path("catalog.csv"), endpoint)
	if _, err := a.store.PutObject("saved", "installation.yaml", nil, bytes.NewReader(settings), int64(len(settings)), nil); err != nil {
		t.Fatal(err)
	}
	s.write("two.yaml", fmt.Sprintf("run: echo hello from EC2\nec2: {installation: %q}\n", a.at("installation.yaml")))
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
	s.write("two.yaml", fmt.Sprintf("run: echo hello from EC2\nec2: {installation: %q}\n", a.at("elsewhere.yaml")))
	if said := ask("us-west-1", "plan", "two.yaml").wait(cli.ExitUsage); !strings.Contains(said, "two.yaml:2:21: ec2.installation: cannot be used: ") {
		t.Errorf("without an installation it says\n%s", said)
	}
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}
