package docstest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var changelogHeading = regexp.MustCompile(`^(## (Unreleased|v\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\))|### (Added|Changed|Fixed|Removed))$`)

// CHANGELOG.md begins with unreleased changes, has the groups that CONTRIBUTING.md names, and one short line for each change.
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
