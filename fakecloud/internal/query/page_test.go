package query

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page names each action, and no other.
func TestPageListsTheActions(t *testing.T) {
	page, err := os.ReadFile("../../../docs/fakecloud.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Actions\n")
	table, _, found := strings.Cut(table, "\n| other services")
	if !found {
		t.Fatal("the page has no table of actions before other services")
	}
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(table, -1) {
		listed[name[1]] = true
		if actions[name[1]] == nil {
			t.Errorf("the page lists %s, which is not spoken", name[1])
		}
	}
	for name := range actions {
		if !listed[name] {
			t.Errorf("the page does not list %s", name)
		}
	}
}
