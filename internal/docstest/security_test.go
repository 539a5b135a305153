package docstest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each line of these tables, and so each promise of docs/security.md, names the test of what it promises (TestPages checks that it exists), or the make target that has it.
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
