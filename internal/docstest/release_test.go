package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/terraform"
)

var changelogHeading = regexp.MustCompile(`^(## (Unreleased|v\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\))|### (Added|Changed|Fixed|Removed))$`)

// CHANGELOG.md begins with what is not released yet, has the groups that CONTRIBUTING.md names, and one short line for each change.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range changelogFaults(string(text)) {
		t.Error(fault)
	}
	for name, text := range map[string]string{
		"no section":     "# Changelog\n",
		"other group":    "## Unreleased\n\n### New\n",
		"not one line":   "## Unreleased\n\n### Added\n\n- a\n  b\n  c\n",
		"twice the same": "## Unreleased\n\n### Added\n\n- a\n- a\n",
		"too long":       "## Unreleased\n\n### Added\n\n- " + strings.Repeat("a", 201) + "\n",
	} {
		if len(changelogFaults(text)) == 0 {
			t.Errorf("%s: no fault is reported", name)
		}
	}
}

func changelogFaults(text string) (faults []string) {
	entries, rest := map[string]bool{}, 0
	first := ""
	for i, line := range strings.Split(text, "\n") {
		fault := func(why string) { faults = append(faults, fmt.Sprintf("CHANGELOG.md:%d: %s", i+1, why)) }
		switch {
		case strings.HasPrefix(line, "##"):
			if first == "" {
				first = line
			}
			if !changelogHeading.MatchString(line) {
				fault("want ## Unreleased, ## vX.Y.Z (date), or ### with Added, Changed, Fixed or Removed")
			}
		case strings.HasPrefix(line, "- "):
			if entries[line] {
				fault("this line is there twice")
			}
			entries[line], rest = true, 0
			if len(line) > 200 {
				fault("longer than 200 characters")
			}
		case strings.HasPrefix(line, "  "):
			if rest++; rest > 1 {
				fault("an entry is one short line")
			}
		}
	}
	if first != "## Unreleased" {
		faults = append(faults, "CHANGELOG.md: the first section must be ## Unreleased")
	}
	return faults
}

// .goreleaser.yaml and .ci/release make the same archives.
func TestReleaseFiles(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Version int
		Builds  []struct {
			Main                       string
			Env, Goos, Goarch, Ldflags []string
		}
		Archives []struct {
			Name  string `yaml:"name_template"`
			Files []any
		}
		Checksum struct{ Algorithm string }
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../.ci/release")
	if err != nil {
		t.Fatal(err)
	}
	if c.Version != 2 || len(c.Builds) != 1 || len(c.Archives) != 1 || c.Checksum.Algorithm != "sha256" {
		t.Fatalf("the configuration is %+v", c)
	}
	b := c.Builds[0]
	if !slices.Contains(b.Env, "CGO_ENABLED=0") || !strings.Contains(string(script), "CGO_ENABLED=0") || b.Main != "./cmd/tierml" {
		t.Errorf("the build is %+v", b)
	}
	for _, system := range b.Goos {
		for _, arch := range b.Goarch {
			if !strings.Contains(string(script), system+"/"+arch) {
				t.Errorf(".ci/release lacks %s/%s", system, arch)
			}
		}
	}
	units := terraform.Units()
	for _, file := range c.Archives[0].Files {
		pattern, isText := file.(string)
		if !isText { // completions are made
			continue
		}
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: there are no such files (%v)", pattern, err)
		}
		if base := strings.TrimSuffix(pattern, "/*"); !strings.Contains(string(script), base) {
			t.Errorf(".ci/release does not pack %s", pattern)
		}
		units = slices.DeleteFunc(units, func(u terraform.Unit) bool { return slices.Contains(found, "../../terraform/"+u.Name) })
	}
	for _, u := range units {
		t.Errorf("archives lack terraform/%s, which a controller needs", u.Name)
	}
}
