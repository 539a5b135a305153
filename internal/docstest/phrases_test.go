package docstest

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// phrases are odd English for engineers. Comments, test names and pages may use each up to its budget: lower it when uses are removed.
var phrases = []struct {
	pattern *regexp.Regexp
	instead string
	budget  int
}{
	{regexp.MustCompile(`(?i)\bof them\b`), "all, each, one, none; or name the things", 3},
	{regexp.MustCompile(`(?i)\b(is|are) asked\b`), "gets a request, is queried", 3},
	{regexp.MustCompile(`(?i)\basked for\b`), "requested, wanted", 4},
	{regexp.MustCompile(`(?i)\bso (many|much)\b`), "n, this many, the number of", 1},
	{regexp.MustCompile(`(?i)\bbeside\b`), "next to, besides, compared with, along with", 13},
	{regexp.MustCompile(`(?i)\bin place of\b`), "instead of", 0},
	{regexp.MustCompile(`(?m)\b[Ww]hoever\b|(^|[.;:] )Who\b[^?.\n]*(\.|$)`), "a client that, the process that, any caller", 1},
	{regexp.MustCompile(`(?i)\b(is|are) over\b`), "ends, has ended, finished, expired", 1},
	{regexp.MustCompile(`(?i)\bcomes? to\b`), "costs, amounts to, reaches, is the result of", 0},
	{regexp.MustCompile(`(?i)\b(is|are) told\b`), "learns, is notified", 2},
	{regexp.MustCompile(`(?i)\b(goes|go) on\b`), "continues, is in progress", 1},
	{regexp.MustCompile(`(?i)\btakes? up\b`), "adopts, accepts, loads", 0},
}

func TestPhrases(t *testing.T) {
	counts, last := make([]int, len(phrases)), make([][]string, len(phrases))
	if err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && skipped(name) {
			return cmp.Or(err, fs.SkipDir)
		}
		text, err := prose(name)
		for i, n := range uses(text) {
			if n > 0 {
				counts[i], last[i] = counts[i]+n, append(last[i][max(0, len(last[i])-4):], name)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, p := range phrases {
		if counts[i] > p.budget {
			t.Errorf("%s occurs %d times, at most %d are allowed: write %s (last in %s)", p.pattern, counts[i], p.budget, p.instead, strings.Join(last[i], ", "))
		}
	}
}

// prose returns the English in a file: a page, or a Go file's comments and test names, one per line.
func prose(name string) (string, error) {
	page := name == "README.md" || name == "CONTRIBUTING.md" || path.Dir(name) == "docs" && path.Ext(name) == ".md"
	if !page && path.Ext(name) != ".go" {
		return "", nil
	}
	src, err := os.ReadFile(path.Join("../..", name))
	if err != nil || page {
		return string(src), err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return "", err
	}
	var b strings.Builder
	for _, c := range file.Comments {
		b.WriteString(strings.Join(strings.Fields(c.Text()), " ") + "\n")
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
			b.WriteString(regexp.MustCompile(`[A-Z][a-z]+`).ReplaceAllString(f.Name.Name, " $0") + "\n")
		}
	}
	return b.String(), nil
}

func uses(text string) (counts []int) {
	for _, p := range phrases {
		counts = append(counts, len(p.pattern.FindAllString(text, -1)))
	}
	return counts
}

func TestUsesOfPhrases(t *testing.T) {
	want := map[int]int{0: 1, 1: 1, 2: 1, 4: 1, 6: 1, 10: 2}
	for i, n := range uses("All of them go on.\nWho asks is asked for it.\n Test Goes On Beside H\nWho is it?") {
		if n != want[i] {
			t.Errorf("%s: %d uses, want %d", phrases[i].pattern, n, want[i])
		}
	}
}
