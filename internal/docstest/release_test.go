package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The release notes have every change, by kind, with links that lead somewhere from the root.
func TestChangelog(t *testing.T) {
	command := exec.Command("../../.ci/changelog", "v0.0.1")
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	notes := string(text)
	if !strings.HasPrefix(notes, "## v0.0.1 (") || strings.Contains(notes, "](../") {
		t.Errorf("the notes begin or link wrongly:\n%.300s", notes)
	}
	files, err := filepath.Glob("../../changes/*-*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		change, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heading, _, _ := strings.Cut(strings.TrimPrefix(string(change), "# "), "\n")
		if !strings.Contains(notes, "- **"+heading+".**") {
			t.Errorf("%s is not in the notes", file)
		}
	}
	for _, m := range link.FindAllStringSubmatch(notes, -1) {
		path, _, _ := strings.Cut(m[1], "#")
		if strings.Contains(path, "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
			t.Errorf("the notes link to %s: %v", m[1], err)
		}
	}
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
	for _, file := range c.Archives[0].Files {
		pattern, isText := file.(string)
		if !isText { // completions and the changelog are made
			continue
		}
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: there are no such files (%v)", pattern, err)
		}
		if base := strings.TrimSuffix(pattern, "/*"); !strings.Contains(string(script), base) {
			t.Errorf(".ci/release does not pack %s", pattern)
		}
	}
}
