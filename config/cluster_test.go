package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An installation as Terraform prints it suffices for commands about the cluster alone; a job file is read as usual.
func TestLoadCluster(t *testing.T) {
	const settings = `ec2:
  region: us-west-2
  cluster: prod
  image: ami-1
  program: {url: s3://bucket/program/tierml-1, sha256: 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a}
  checkpoints: s3://bucket/checkpoints
`
	load := func(text string) (*Job, error) {
		path := filepath.Join(t.TempDir(), "installation.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return LoadCluster(path)
	}
	job, err := load(settings)
	if err != nil || job.Installation().Cluster != "prod" || job.Installation().Region != "us-west-2" {
		t.Errorf("%+v, %v", job, err)
	}
	if _, err := load(strings.Replace(settings, "region:", "regoin:", 1)); err == nil || !strings.Contains(err.Error(), "installation.yaml:2:3: ec2.regoin: unknown field") {
		t.Errorf("a misspelt field: %v", err)
	}
	if _, err := load(settings + "name: real\n"); err == nil || !strings.Contains(err.Error(), "train") {
		t.Errorf("half a job: %v", err)
	}
}
