package docstest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each line of the tables of docs/security.md that says what stops somebody names a test (TestPages looks whether it exists), or the
// make target that has it.
func TestSecurityHasATestForEachLine(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test|Fuzz)[A-Z]|`make test-")
	lines, tables := strings.Split(string(page), "\n"), 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		if i > 0 && strings.HasPrefix(lines[i-1], "|") {
			if !strings.HasPrefix(line, "|---") && !named.MatchString(line) {
				t.Errorf("line %d names no test: %.100s", i+1, line)
			}
			continue
		}
		tables++
	}
	if tables < 4 {
		t.Errorf("%d tables were found", tables)
	}
}
