package ec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	_ "github.com/tierml/tierml/providers/all"
	"github.com/tierml/tierml/providers/ec2"
)

// A job on EC2 has the settings that Terraform's module prints, and what a real cloud implies for the rest.
func TestBlock(t *testing.T) {
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
	job, err := config.Load(filepath.Join(dir, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b := job.Block.(*ec2.Block)
	if job.Security != config.SecurityTLS || job.Local.Rules != "ec2-now+disk=16x0.08+address=0.005" || job.Local.Speed != 1 || job.OrphanAfter != 15*time.Minute ||
		job.Checkpoint.To != "s3://bucket/checkpoints" || b.Disk.MiB != 16<<10 || b.Subnets["us-west-2a"] != "subnet-a" {
		t.Errorf("%+v", job)
	}
	again := filepath.Join(dir, "again.yaml")
	if err := os.WriteFile(again, job.Resolved(), 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := config.Load(again)
	if err != nil {
		t.Fatalf("%v\n%s", err, job.Resolved())
	}
	if string(second.Resolved()) != string(job.Resolved()) {
		t.Errorf("%s\nis not\n%s", second.Resolved(), job.Resolved())
	}
}
