package docstest

import (
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

// People who meet a message search for its words. TestMessages checks that the messages quoted in the first column of
// docs/troubleshooting.md still occur in the source, except for placeholders (..., N, C).
func TestMessages(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	source := messages(t)
	quoted := 0
	for _, fragment := range quotes(string(page)) {
		quoted++
		if !strings.Contains(source, fragment) {
			t.Errorf("docs/troubleshooting.md quotes %q, which no message of the program has", fragment)
		}
	}
	if quoted < 40 {
		t.Errorf("only %d fragments were found on the page", quoted)
	}
}

var valuesInQuotes = regexp.MustCompile(`\.\.\.|\b[NC]\b|"ec2"|"gce"`)

// quotes returns the fixed parts of the messages in the first cells of tables.
func quotes(page string) (fragments []string) {
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
			for _, fragment := range valuesInQuotes.Split(m[1], -1) {
				if fragment = strings.Trim(fragment, " :;?(),"); len(fragment) >= 8 {
					fragments = append(fragments, fragment)
				}
			}
		}
	}
	return fragments
}

// messages returns every string of the program's source, one per line, with concatenations joined.
func messages(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (skipped(name) || name == "internal/docstest"):
			return fs.SkipDir
		case path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if s := joined(e); s != "" {
					all.WriteString(s + "\n")
					return false
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// joined returns a string literal, or concatenated literals; "" for other expressions.
func joined(e ast.Expr) string {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		if a, b := joined(sum.X), joined(sum.Y); a != "" && b != "" {
			return a + b
		}
		return ""
	}
	return literal(e)
}
