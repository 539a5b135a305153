package docstest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var changeName = regexp.MustCompile(`^(new|change|fix|removed)(-[a-z0-9]+)+\.md$`)

// TestChanges keeps the form that changes/README.md describes.
func TestChanges(t *testing.T) {
	files, err := os.ReadDir("../../changes")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Name() == "README.md" {
			continue
		}
		if !changeName.MatchString(file.Name()) {
			t.Errorf("changes/%s: name it KIND-some-words.md; changes/README.md has the kinds", file.Name())
		}
		text, err := os.ReadFile("../../changes/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		body := len(lines) - 2
		switch {
		case !strings.HasPrefix(lines[0], "# ") || len(lines[0]) > 102:
			t.Errorf("changes/%s: the first line must be a heading of at most 100 characters", file.Name())
		case body < 1 || body > 10 || lines[1] != "":
			t.Errorf("changes/%s: want a heading, a blank line, and one to ten lines", file.Name())
		}
	}
}
