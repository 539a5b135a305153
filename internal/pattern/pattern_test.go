package pattern

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every pattern in the repository is a literal that compiles: otherwise its first use would panic.
func TestPatternsCompile(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || !isOf(call.Fun) {
				return true
			}
			found++
			text, is := call.Args[0].(*ast.BasicLit)
			if !is {
				t.Errorf("%s: not a literal", positions.Position(call.Pos()))
				return true
			}
			expression, err := strconv.Unquote(text.Value)
			if err == nil {
				_, err = regexp.Compile(expression)
			}
			if err != nil {
				t.Errorf("%s: %v", positions.Position(call.Pos()), err)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("%d patterns were found", found)
	}
}

func isOf(called ast.Expr) bool {
	selector, is := called.(*ast.SelectorExpr)
	if !is {
		return false
	}
	of, is := selector.X.(*ast.Ident)
	return is && of.Name == "pattern" && selector.Sel.Name == "Of"
}

func TestOf(t *testing.T) {
	digits := Of(`^[0-9]+$`)
	if first := digits(); !first.MatchString("12") || first.MatchString("x") || digits() != first {
		t.Error("not one regular expression of digits")
	}
}
