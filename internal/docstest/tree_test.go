package docstest

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// Every package has its purpose in the tree of docs/architecture.md: by its path, or by its last name in a row with a package above it.
// Examples and lab have pages of their own (docs/extend.md, lab/README.md).
func TestTree(t *testing.T) {
	repository := os.DirFS("../..")
	text, err := fs.ReadFile(repository, "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, found := strings.Cut(string(text), "\n## The tree\n")
	tree, _, ended := strings.Cut(tree, "\n## ")
	if !found || !ended {
		t.Fatal("docs/architecture.md has no section The tree")
	}
	packages := 0
	err = fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || skipped(base) || base == "testdata") || name == "examples" || name == "tools" || name == "lab" {
			return fs.SkipDir
		}
		sources, err := fs.Glob(repository, name+"/*.go")
		if err != nil || len(sources) == 0 || name == "." {
			return err
		}
		packages++
		if !inTree(tree, name) {
			t.Errorf("%s is not in the tree of docs/architecture.md: say there what it is for", name)
		}
		return nil
	})
	if err != nil || packages < 100 {
		t.Errorf("%d packages were looked at: %v", packages, err)
	}
}

func inTree(tree, name string) bool {
	for row := range strings.Lines(tree) {
		if strings.Contains(row, "`"+name+"`") {
			return true
		}
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if strings.Contains(row, "`"+above+"`") && strings.Contains(row, "`"+path.Base(name)+"`") {
				return true
			}
		}
	}
	return false
}
