package fakecloud

import (
	"os/exec"
	"strings"
	"testing"
)

// TestBoto3 makes the first calls of other people's programs with the Python client: testdata/clients.py.
func TestBoto3(t *testing.T) {
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} { // a version manager may put another one before Debian's
		if python == "" && exec.Command(p, "-c", "import boto3").Run() == nil {
			python = p
		}
	}
	if python == "" {
		t.Skip("boto3 is not installed: apt-get install python3-boto3")
	}
	c := run(t, func(c *Config) {
		c.Zones = []string{"us-west-1c"}
		c.Limits.OnDemandInstances = 4
	})
	cmd := exec.Command(python, "testdata/clients.py", c.Endpoint())
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"}
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "all answered" {
		t.Errorf("%v\n%s", err, out)
	}
}
