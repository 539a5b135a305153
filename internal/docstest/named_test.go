package docstest

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Tests that pages name as proof exist.
func TestNamedTestsExist(t *testing.T) {
	repository := os.DirFS("../..")
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	named := regexp.MustCompile("`(?:go test [^`]*-run '?)?((?:Test|Fuzz|Benchmark)[A-Z]\\w+)")
	there, pages := map[string]bool{}, map[string][]string{}
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || name == "runs"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".md") {
			for _, m := range named.FindAllSubmatch(text, -1) {
				pages[name] = append(pages[name], string(m[1]))
			}
			return nil
		}
		for _, m := range function.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return nil
	})
	if err != nil || len(there) == 0 || len(pages["test/wishes.md"]) == 0 {
		t.Fatalf("%d tests, %d pages that name some: %v", len(there), len(pages), err)
	}
	for page, tests := range pages {
		for _, test := range tests {
			if !there[test] {
				t.Errorf("%s names %s, which does not exist", page, test)
			}
		}
	}
}
