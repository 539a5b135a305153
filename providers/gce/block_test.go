package gce_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	_ "github.com/tierml/tierml/providers/all"
	"github.com/tierml/tierml/providers/gce"
)

// realGCE returns a job with what Terraform's module prints, and more lines below gce.
func realGCE(t *testing.T, more string) (*config.Job, string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"catalog.csv": "x", "prices.csv": "x", "ratings.csv": "x", "job.yaml": `
name: real
cloud: gce
resources: {count: 2, any_of: [{type: n2-standard-4}], zones: [us-central1-a]}
train: {app: mf, data: ratings.csv, clocks: 4}
gce:
  project: some-project
  region: us-central1
  cluster: prod
  subnetwork: projects/some-project/regions/us-central1/subnetworks/prod
  service_account: prod-mch@some-project.iam.gserviceaccount.com
  program: {url: gs://bucket/program/tierml-1, sha256: ` + strings.Repeat("0a", 32) + `}
  catalog: catalog.csv
` + more} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job, err := config.Load(filepath.Join(dir, "job.yaml"))
	return job, dir, err
}

// A job on Compute Engine has the settings that Terraform's module prints, and what a real cloud implies for the rest.
func TestGCE(t *testing.T) {
	job, dir, err := realGCE(t, `  checkpoints: gs://bucket/checkpoints
  owner: ann
  labels: {team: ml}
  extra_notice: 90s
  secure_boot: false
`)
	if err != nil {
		t.Fatal(err)
	}
	g := job.Block.(*gce.Block)
	if job.Security != config.SecurityTLS || job.Local.Rules != "gce-spot+disk=16x0.1" || job.Local.Speed != 1 || job.Local.Notice != 2*time.Minute ||
		job.OrphanAfter != 15*time.Minute || job.Checkpoint.To != "gs://bucket/checkpoints" || g.Disk.MiB != 16<<10 ||
		g.DiskType != "pd-balanced" || g.SecureBoot || g.Labels["team"] != "ml" {
		t.Errorf("%+v", job)
	}
	if i := job.Installation(); i == nil || i.Cluster != "prod" || i.Block != gce.Name || i.Catalog != filepath.Join(dir, "catalog.csv") {
		t.Errorf("%+v", i)
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

// What Compute Engine would refuse is refused before any query.
func TestGCEMistakes(t *testing.T) {
	const place = "  checkpoints: gs://bucket/checkpoints\n"
	for more, want := range map[string]string{
		"":                                     "gce.checkpoints: is missing",
		place + "  owner: Ann":                 `gce.owner: "Ann" cannot be a label`,
		place + "  labels: {Team: ml}":         "gce.labels: \"Team\": \"ml\" cannot be a label",
		place + "  labels: {tierml-job: mine}": "is one of TierML's own",
		place + "  extra_notice: 3m":           "gce.extra_notice: 3m0s is no warning that Compute Engine gives; write whole seconds up to 2m",
		place + "  listen: 0.0.0.0:1":          "gce.listen: 0.0.0.0:1 is every address",
		place + "  prices: nowhere.csv":        "gce.prices: cannot read",
		place + "ec2: {region: us-west-2}":     "ec2: is for cloud: ec2 only",
	} {
		if _, _, err := realGCE(t, more); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", more, err, want)
		}
	}
}

// programOnGCE loads a job of a program.
func programOnGCE(t *testing.T, fields, block string) error {
	t.Helper()
	name := filepath.Join(t.TempDir(), "job.yaml")
	text := "name: own\ncloud: gce\nrun: 'true'\n" + fields + "\ngce: {project: p, region: us-central1, cluster: c, checkpoints: gs://b/c, program: {url: gs://b/p, sha256: " +
		strings.Repeat("0a", 32) + "}" + block + "}\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(name)
	return err
}

// GPUs that are attached to N1 machines are refused with an explanation, unless others would do as well.
func TestGPUsForN1(t *testing.T) {
	for gpus, refused := range map[string]bool{"V100:1": true, "[T4:1, K80:2]": true, "[T4:1, L4:1]": false} {
		err := programOnGCE(t, "resources: {count: 1, gpu: "+gpus+", zones: [us-central1-a]}", "")
		if got := err != nil && strings.Contains(err.Error(), "is attached to N1 machines on Compute Engine"); got != refused || !refused && err != nil {
			t.Errorf("%s: %v", gpus, err)
		}
	}
}

// Containers are refused on the default boot image, which could not run them.
func TestContainersOnGCE(t *testing.T) {
	const types, gpus = "resources: {count: 1, any_of: [{type: n2-standard-4}]}", "resources: {count: 1, gpu: L4:1}"
	for _, c := range []struct {
		fields, block string
		refused       bool
	}{
		{types, "", false},
		{types + "\nimage: python:3.12-slim", "", true},
		{types + "\nimage: python:3.12-slim", ", image: projects/p/global/images/family/with-docker", false},
		{gpus + "\nimage: python:3.12-slim", "", false},
	} {
		err := programOnGCE(t, c.fields, c.block)
		if got := err != nil && strings.Contains(err.Error(), "gce.image: is projects/debian-cloud/global/images/family/debian-12, which has neither Docker nor Podman"); got != c.refused || !c.refused && err != nil {
			t.Errorf("%s%s: %v", c.fields, c.block, err)
		}
	}
}
