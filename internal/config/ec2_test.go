package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A job on EC2 has what Terraform's module prints, and what a real cloud means for the rest.
func TestEC2(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"catalog.csv": "x", "ratings.csv": "x", "job.yaml": `
name: real
cloud: ec2
resources: {count: 2, any_of: [{type: c5.large}]}
train: {app: mf, data: ratings.csv, clocks: 4}
ec2:
  region: us-west-2
  cluster: prod
  owner: ann
  image: ami-1
  subnets: {us-west-2a: subnet-a}
  security_groups: [sg-1]
  instance_profile: machines
  program: {url: s3://bucket/program/tierml-1, sha256: ` + strings.Repeat("0a", 32) + `}
  checkpoints: s3://bucket/checkpoints
  catalog: catalog.csv
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job, err := Load(filepath.Join(dir, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if job.Security != SecurityTLS || job.Local.Rules != "ec2-now" || job.Local.Speed != 1 || job.OrphanAfter != 15*time.Minute ||
		job.Checkpoint.To != "s3://bucket/checkpoints" || job.EC2.Disk.MiB != 16<<10 || job.EC2.Subnets["us-west-2a"] != "subnet-a" {
		t.Errorf("%+v", job)
	}
	again := filepath.Join(dir, "again.yaml")
	if err := os.WriteFile(again, job.Resolved(), 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := Load(again)
	if err != nil {
		t.Fatalf("%v\n%s", err, job.Resolved())
	}
	if string(second.Resolved()) != string(job.Resolved()) {
		t.Errorf("%s\nis not\n%s", second.Resolved(), job.Resolved())
	}
}

// What Terraform prints of an installation is enough for what is about the cluster alone; a job file is read as ever.
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
