package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// unraced folders are too slow for the race detector, which takes ten times as long.
var unraced = []string{"lab", "tools", "test", "sim"} // goroutines of sim each have a simulation of their own

// racedLine is the Makefile's list of packages for the race detector.
var racedLine = regexp.MustCompile(`(?m)^RACE \?= ((?:.*\\\n)*.*)$`)

// checkRaced requires that each package that starts goroutines is on the Makefile's list for the race detector. Without a list there is
// nothing to check.
func checkRaced(sources []*source, makefile []byte) []Violation {
	list := racedLine.FindSubmatch(makefile)
	if list == nil {
		return nil
	}
	watched := func(dir string) bool {
		for pattern := range strings.FieldsSeq(strings.ReplaceAll(string(list[1]), "\\\n", " ")) {
			tree, all := strings.CutSuffix(strings.TrimPrefix(pattern, "./"), "/...")
			if dir == tree || all && within(dir, tree) {
				return true
			}
		}
		return false
	}
	var violations []Violation
	for _, s := range sources {
		if s.test() || within(s.dir, unraced...) || watched(s.dir) {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if starts(n) {
				violations = append(violations, s.at(n.Pos(), path.Base(s.dir)+" starts a goroutine", "the race detector never sees it; add the package to RACE in the Makefile"))
			}
			return true
		})
	}
	return violations
}

// starts reports whether n starts a goroutine, by a go statement or by a group.
func starts(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		_, ok = n.(*ast.GoStmt)
		return ok
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && method.Sel.Name == "Go"
}
