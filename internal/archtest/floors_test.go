package archtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/architecture.md has the floors in their order, each with its folders.
func TestFloorsOnThePage(t *testing.T) {
	if len(upward) > mostUpward {
		t.Errorf("%d imports go upward, and %d may", len(upward), mostUpward)
	}
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for i, folders := range floors {
		heading := fmt.Sprintf("\n### Floor %d: %s\n", i, strings.Join(folders, ", "))
		_, after, found := strings.Cut(rest, heading)
		if !found {
			t.Fatalf("docs/architecture.md has no heading %q after those of the floors below", strings.TrimSpace(heading))
		}
		rest = after
	}
	if strings.Contains(rest, "\n### Floor") {
		t.Error("docs/architecture.md has a floor that internal/archtest does not know")
	}
}

func TestFloorsAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		dir, imports, want string
	}{
		"upward":     {"planner", "jobrun", "planner is on floor 6, and jobrun on floor 9"},
		"neighbours": {"jobrun", "watch/status", "jobrun is on floor 9, and watch on floor 9"},
		"tools":      {"internal/table", "market", "internal is on floor 0"},
		"the world":  {"watch/status", "sim", ""}, // downward, but sim has a rule of its own
		"new":        {"attic", "market", "attic is on no floor"},
	} {
		violations := check(t, map[string]string{c.dir + "/a.go": file(c.dir, "", Module+"/"+c.imports)})
		text := fmt.Sprint(violations)
		if c.want == "" && strings.Contains(text, "floor") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v, want %q", name, violations, c.want)
		}
	}
}
