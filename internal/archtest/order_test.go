package archtest

import (
	"fmt"
	"strings"
	"testing"
)

func TestOrderOfFiles(t *testing.T) {
	const (
		base = "package watch\n\nimport \"time\"\n\ntype thing struct{ at time.Time }\n\nfunc (t *thing) age() int { return 1 }\n"
		user = "package watch\n\nfunc use(t thing) int { return t.age() }\n"
	)
	for name, c := range map[string]struct {
		claim, want string
	}{
		"it holds":           {"doc, base, user", ""},
		"it does not":        {"doc, user, base", "has 2 exceptions, not 0: user.go:3 uses age of base.go, user.go:3 uses thing of base.go"},
		"with exceptions":    {"doc, user, base", ""},
		"fewer than it says": {"doc, base, user", "has 0 exceptions, not 3"},
		"a file is missing":  {"doc, base", "the files are base, doc, user"},
		"a file is gone":     {"doc, base, user, old", "the files are base, doc, user"},
	} {
		words := map[string]string{"with exceptions": ", with 2 exceptions", "fewer than it says": ", with 3 exceptions"}[name]
		violations := check(t, map[string]string{
			"watch/doc.go":       "// Package watch is a test.\n//\n// Each file uses only those before it" + words + ": " + c.claim + ".\npackage watch\n",
			"watch/base.go":      base,
			"watch/user.go":      user,
			"watch/user_test.go": "package watch\n\nvar _ = use\n",
		})
		if text := fmt.Sprint(violations); (len(violations) > 0) != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v, want %q", name, violations, c.want)
		}
	}
}
