package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
)

// shellLines returns the lines of a page's shell blocks that call this program.
func shellLines(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	inShell := false
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inShell = line == "```sh"
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		if call, ok := strings.CutPrefix(line, "tierml "); ok && inShell {
			lines = append(lines, call)
		}
	}
	return lines
}

// Every call in every page is one that the program takes: command, arguments and flags.
func TestCallsInPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, "../../README.md") {
		for _, line := range shellLines(t, page) {
			line, _, _ = strings.Cut(line, "|")
			n++
			takes(t, splitLine(line))
		}
	}
	if n < 25 {
		t.Errorf("only %d calls were found", n)
	}
}

// installation stands for what Terraform prints, with the fake cloud in the place of EC2.
const installation = `"ec2":
  "checkpoints": "s3://bucket/checkpoints"
  "cluster": "tierml"
  "image": "ami-0123456789abcdef0"
  "program":
    "sha256": "7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
    "url": "s3://bucket/program/tierml"
  "region": "us-west-1"
  "endpoint": "ENDPOINT"
`

// The tutorial's job is made by its own call, and its plan is made, against the fake cloud.
func TestTutorialOnEC2(t *testing.T) {
	dir := t.TempDir()
	endpoint := fakeEC2(t)
	data, err := filepath.Abs("../../examples/data/jester5k.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "installation.yaml"), []byte(strings.ReplaceAll(installation, "ENDPOINT", endpoint)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	done := map[string]bool{}
	for _, line := range shellLines(t, filepath.Join(filepath.Dir(data), "..", "..", "docs", "tutorial-ec2.md")) {
		args := splitLine(strings.ReplaceAll(line, "examples/data/jester5k.csv.gz", data))
		if args[0] != "init" && args[0] != "plan" && args[0] != "dry-run" && args[0] != "leaks" {
			continue // they need a run, or an account
		}
		var out, errOut bytes.Buffer
		if code := tierml(args, strings.NewReader(""), &out, &errOut); code != cli.ExitDone {
			t.Fatalf("tierml %s: exit code %d\n%s%s", line, code, &out, &errOut)
		}
		done[args[0]] = true
		if args[0] == "plan" {
			smallTier(t, "ratings.yaml")
		}
		for _, words := range []string{"EC2 would launch machines", "On-demand prices: AWS Price List of us-west-1, asked "} {
			if args[0] == "plan" && !strings.Contains(out.String()+errOut.String(), words) {
				t.Errorf("the plan does not say %q:\n%s%s", words, &out, &errOut)
			}
		}
	}
	if len(done) != 4 {
		t.Errorf("of the tutorial's calls only %v were made", done)
	}
	job, err := config.Load("ratings.yaml")
	if err != nil || job.Resources.Count.Most != 8 || job.Budget != 5*market.Dollar {
		t.Errorf("the job is %+v, %v", job, err)
	}
}

// What a tutorial has Terraform set are variables of its module, and all those that have no default.
func TestTutorialsSetWhatModulesNeed(t *testing.T) {
	declared := regexp.MustCompile(`(?ms)^variable "(\w+)" \{\n(.*?)^\}`)
	assigned := regexp.MustCompile(`(?m)^(\w+) = `)
	for page, module := range map[string]string{"tutorial-ec2.md": "aws", "tutorial-gce.md": "gcp"} {
		text := string(must(os.ReadFile("../../docs/" + page))(t))
		_, text, _ = strings.Cut(text, "terraform.tfvars <<END\n")
		text, _, _ = strings.Cut(text, "\nEND\n")
		set := map[string]bool{}
		for _, m := range assigned.FindAllStringSubmatch(text, -1) {
			set[m[1]] = true
		}
		for _, m := range declared.FindAllStringSubmatch(string(must(os.ReadFile("../../terraform/"+module+"/variables.tf"))(t)), -1) {
			if !strings.Contains(m[2], "\n  default ") && !set[m[1]] {
				t.Errorf("%s does not set %s", page, m[1])
			}
			delete(set, m[1])
		}
		if len(set) > 0 || text == "" {
			t.Errorf("%s sets %v, which the module does not know", page, set)
		}
	}
}

// smallTier checks that the reliable tier that a plan chooses costs at most 2 % of the fleet on demand.
func smallTier(t *testing.T, file string) {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := tierml([]string{"plan", file, "-o", "json"}, strings.NewReader(""), &out, &errOut); code != cli.ExitDone {
		t.Fatalf("tierml plan %s: exit code %d\n%s", file, code, &errOut)
	}
	d := struct {
		Reliable []journal.PlanReliable `json:"reliable"`
		OnDemand journal.OnDemandPlan   `json:"on_demand"`
	}{}
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || len(d.Reliable) == 0 {
		t.Fatalf("%v, in %s", err, &out)
	}
	tier, err1 := strconv.ParseFloat(d.Reliable[0].USD, 64)
	fleet, err2 := strconv.ParseFloat(d.OnDemand.USD, 64)
	if share := tier * d.OnDemand.Hours / fleet; err1 != nil || err2 != nil || !(share <= 0.02) || d.Reliable[0].Refused != "" {
		t.Errorf("%s: the reliable tier, %+v, costs %.1f %% of %+v", file, d.Reliable[0], 100*share, d.OnDemand)
	}
}

// The demo's reliable tier is as small as the tutorial's.
func TestDemoKeepsAReliableTierOfTwoPercent(t *testing.T) {
	smallTier(t, "../../examples/demo.yaml")
}

// fakeEC2 returns a cloud that sells the tutorial's machines now, at an even price for a month.
func fakeEC2(t *testing.T) (endpoint string) {
	t.Helper()
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	c := fakecloud.Config{Clock: clock.Real(), Region: "us-west-1", Prices: map[market.Pool]*market.History{}, Rules: rules, Command: []string{"sleep", "infinity"}}
	for _, kind := range []string{"c5.xlarge", "m5.xlarge"} {
		pool := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: kind, Class: market.Spot}
		c.Prices[pool] = market.NewHistory([]market.PricePoint{{At: time.Now().Add(-30 * 24 * time.Hour), Price: market.Dollar / 20},
			{At: time.Now().Add(-time.Minute), Price: market.Dollar / 21}})
		c.Types = append(c.Types, fakecloud.InstanceType{InstanceType: market.InstanceType{Name: kind, VCPU: 4, MemoryMiB: 8 << 10, OnDemand: market.Dollar / 5}})
	}
	for name, cents := range map[string]float64{ // of us-east-1
		"t3.micro": 1.04, "t3.small": 2.08, "t3.medium": 4.16, "t3.large": 8.32, "m5.large": 9.6, "m5.2xlarge": 38.4,
		"r5.large": 12.6, "r5.xlarge": 25.2, "r5.2xlarge": 50.4, "r5.4xlarge": 100.8,
	} {
		small, _ := shapes.Complete(market.InstanceType{Name: name, OnDemand: market.USD(cents * float64(market.Dollar) / 100)})
		c.Types = append(c.Types, fakecloud.InstanceType{InstanceType: small})
	}
	cloud, err := fakecloud.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := cloud.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); serving.Wait() })
	return cloud.Endpoint()
}
