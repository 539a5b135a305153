package docstest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each line of these tables names the test of its promise (TestPages checks that it exists), or the make target that runs it.
func TestSecurityHasATestForEachLine(t *testing.T) {
	named := regexp.MustCompile("`(Test|Fuzz)[A-Z]|`make test-")
	for page, wanted := range map[string]int{"test/attacks.md": 3} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		lines, tables := strings.Split(string(text), "\n"), 0
		for i, line := range lines {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			if i > 0 && strings.HasPrefix(lines[i-1], "|") {
				if !strings.HasPrefix(line, "|---") && !named.MatchString(line) {
					t.Errorf("%s:%d names no test: %.100s", page, i+1, line)
				}
				continue
			}
			tables++
		}
		if tables != wanted {
			t.Errorf("%s has %d tables, want %d", page, tables, wanted)
		}
	}
}

// Each row, item and paragraph of docs/security.md before the list of what it does not stop has a line in the last table of
// test/attacks.md, and each line there is about something on the page.
func TestEachClaimOfSecurityHasATest(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	attacks, err := os.ReadFile("../../test/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	promises, _, _ := strings.Cut(string(page), "## What this does not stop")
	_, promises, _ = strings.Cut(promises, "\n\n") // the title, and the audience
	_, promises, _ = strings.Cut(promises, "\n\n")
	_, table, found := strings.Cut(string(attacks), "## Each line of docs/security.md")
	if !found {
		t.Fatal("test/attacks.md has no table of the lines")
	}
	var claims []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && !strings.HasPrefix(line, "|---") && strings.TrimSpace(cells[1]) != "claim" {
			claims = append(claims, strings.TrimSpace(cells[1]))
		}
	}
	var lines []string
	for block := range strings.SplitSeq(promises, "\n\n") {
		block = strings.TrimSpace(block)
		switch {
		case block == "", strings.HasPrefix(block, "#"):
		case strings.HasPrefix(block, "|"):
			lines = append(lines, strings.Split(block, "\n")[2:]...)
		default:
			for _, item := range regexp.MustCompile(`\n(\d+\. |- )`).Split(block, -1) {
				lines = append(lines, strings.Join(strings.Fields(item), " "))
			}
		}
	}
	if len(lines) < 30 || len(claims) < len(lines) {
		t.Errorf("%d lines, %d claims", len(lines), len(claims))
	}
	for _, line := range lines {
		if !slices.ContainsFunc(claims, func(c string) bool { return strings.Contains(line, c) }) {
			t.Errorf("no test is named for: %s", line)
		}
	}
	for _, c := range claims {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, c) }) {
			t.Errorf("docs/security.md does not say %q", c)
		}
	}
}
