package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each rule is where the table says, once, and its test is in its package.
func TestRulesAreInTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, r := range rules {
		text, err := os.ReadFile(filepath.Join(root, r.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(text), r.text); n != 1 {
			t.Errorf("%s: %s has %q %d times, not once", r.what, r.file, r.text, n)
		}
		tests, err := filepath.Glob(filepath.Join(root, r.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range tests {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+r.test+"(")
		}
		if !found {
			t.Errorf("%s: %s has no %s", r.what, r.pkg, r.test)
		}
	}
}
