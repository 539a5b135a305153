package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/clock"
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

// Every call in every page is valid: command, arguments and flags.
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

// Tutorials set only variables that the Terraform module has, and all those without defaults.
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

// fakeEC2 returns a cloud that sells the tutorial's machines now, at a constant price for a month.
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
