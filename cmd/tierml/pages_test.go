package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/docstest"
)

// Job files on the pages load and can be planned: those of the local cloud as they are, those of a real one against the fake cloud. Parts
// of job files load within a complete job.
func TestJobsOfPages(t *testing.T) {
	pages, err := docstest.ExecutedBy(os.DirFS("../.."), "TestJobsOfPages")
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Abs("../../examples/data")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := fakeEC2(t)
	for page, blocks := range pages {
		for _, b := range blocks {
			t.Run(b.String(), func(t *testing.T) {
				text := b.Text
				if !strings.HasPrefix(text, "name:") {
					demo, err := os.ReadFile("../../examples/demo.yaml")
					if err != nil {
						t.Fatal(err)
					}
					text = strings.ReplaceAll(string(demo), "data/", "examples/data/") + "\n" + text
				}
				loadAndPlan(t, page, text, data, endpoint)
			})
		}
	}
}

// loadAndPlan loads and plans a job in a folder with the files that the pages' jobs name.
func loadAndPlan(t *testing.T, page, text, data, endpoint string) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"slack-url": "http://127.0.0.1:1/hook\n", "hook-secret": strings.Repeat("k", 32) + "\n",
		"my-ratings.csv.gz": "", "catalog.csv": pageCatalog, "gce.csv": pageGCECatalog, "prices.db": ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"examples", "finetune"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(data, filepath.Join("examples", "data")); err != nil {
		t.Fatal(err)
	}
	ratings := filepath.Join("examples", "data", "jester5k.csv.gz")
	// The test's cloud sells only in us-west-1a, and there is no store next to it.
	text = strings.NewReplacer("my-ratings.csv.gz", ratings, "s3://BUCKET/data/ratings.csv.gz", ratings,
		"us-west-2a, us-west-2b", "us-west-1a", // it has networks of its own
		"  subnets: {us-west-2a: subnet-0a, us-west-2b: subnet-0b}\n", "", "  security_groups: [sg-0a]\n", "",
		"region: us-west-2", "region: us-west-1\n  endpoint: "+endpoint).Replace(text)
	if err := os.WriteFile("job.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	job, err := config.Load("job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if job.Cloud == "gce" {
		return // its plan needs Google's prices, which the tutorial's session has
	}
	var out bytes.Buffer
	if code := tierml([]string{"plan", "job.yaml"}, strings.NewReader(""), &out, &out); code != cli.ExitDone || !strings.Contains(out.String(), "Expected cost") {
		t.Errorf("%s: exit code %d:\n%s", page, code, &out)
	}
}

const (
	pageCatalog    = "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c5.xlarge,4,8,0.212\nus-west-1,m5.xlarge,4,16,0.224\n"
	pageGCECatalog = "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-central1,n2-standard-4,4,16,0.19\nus-central1,n2d-standard-4,4,16,0.17\n"
)

// The plan in the README is what the program prints for the demo.
func TestPlanOnThePage(t *testing.T) {
	pages, err := docstest.ExecutedBy(os.DirFS("../.."), "TestPlanOnThePage")
	if err != nil || len(pages["README.md"]) != 1 {
		t.Fatalf("%v, %v", pages, err)
	}
	job, err := filepath.Abs("../../examples/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // without a calibration
	var out bytes.Buffer
	if code := tierml([]string{"plan", job}, strings.NewReader(""), &out, &out); code != cli.ExitDone {
		t.Fatalf("exit code %d:\n%s", code, &out)
	}
	words := regexp.MustCompile(`\s+`) // columns are as wide as the terminal
	plain := words.ReplaceAllString(out.String(), " ")
	for line := range strings.Lines(pages["README.md"][0].Text) {
		if want := strings.TrimSpace(words.ReplaceAllString(line, " ")); !strings.Contains(plain, want) {
			t.Errorf("the plan does not say %q any more; it says\n%s", want, &out)
		}
	}
}
