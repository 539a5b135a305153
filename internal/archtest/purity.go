package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pure are the packages that decide: plain functions over plain values. Their sub-folders may touch the world.
var pure = []string{"market", "bidding", "provisioner", "elasticity", "elasticity/restart", "elasticity/programs", "elasticity/hosts", "elasticity/step", "elasticity/fleet", "elasticity/training", "elasticity/tuning", "elasticity/tempo", "tiers", "tiers/agent", "ps", "sched", "sched/grants", "sched/trials", "tuner", "cost", "sim"}

const decide = "this package decides, so that the same decisions run on a cloud, on a laptop and in a dry run: "

// impureImports are forbidden in deciding packages.
var impureImports = map[string]string{
	"net":           decide + "the sub-folders speak to networks",
	"os":            decide + "the sub-folders touch files and processes; take an io.Reader or a value",
	"syscall":       decide + "the sub-folders touch the system",
	"log":           decide + "return what happened; the caller tells it",
	"log/slog":      decide + "return what happened; the caller tells it",
	"crypto/rand":   decide + "randomness comes from a named stream of the job's seed",
	"sync":          decide + "it has no goroutines, so nothing needs a lock",
	"math/rand":     "its algorithm and its global source differ from run to run; use a named stream of the job's seed",
	"hash/maphash":  "its secret changes every run, so nothing that rests on it can be repeated; use FNV or SHA",
	"unsafe":        decide + "plain values need no unsafe",
	"runtime/debug": decide + "it must not depend on the process it runs in",
}

// clockFunctions of package time read the clock or wait for it.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// randomFunctions of math/rand/v2 make a stream of a given seed; everything else uses the global one.
var seededFunctions = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Source", "Zipf"}

// checkPurity finds what a deciding package must not do. Its tests may.
func checkPurity(s *source) []Violation {
	if s.test() || !slices.Contains(pure, s.dir) {
		return nil
	}
	var violations []Violation
	names := map[string]string{} // of imported packages in this file
	s.imports(func(p string, pos token.Pos) {
		names[importName(s, p)] = p
		for banned, reason := range impureImports {
			if p == banned || strings.HasPrefix(p, banned+"/") && banned != "sync" && p != "math/rand/v2" && p != "log/slog" {
				violations = append(violations, s.at(pos, "imports "+p, reason))
			}
		}
	})
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			violations = append(violations, s.at(n.Pos(), "starts a goroutine", decide+"the sub-folders run things at the same time"))
		case *ast.SelectStmt:
			violations = append(violations, s.at(n.Pos(), "waits on channels", decide+"events come as arguments"))
		case *ast.SelectorExpr:
			if v, bad := checkSelector(s, names, n); bad {
				violations = append(violations, v)
			}
		}
		return true
	})
	return violations
}

func checkSelector(s *source, names map[string]string, n *ast.SelectorExpr) (Violation, bool) {
	base, ok := n.X.(*ast.Ident)
	if !ok {
		return Violation{}, false
	}
	switch names[base.Name] {
	case "time":
		if slices.Contains(clockFunctions, n.Sel.Name) {
			return s.at(n.Pos(), "uses time."+n.Sel.Name, decide+"time is given as an argument, not read"), true
		}
	case "math/rand/v2":
		if !slices.Contains(seededFunctions, n.Sel.Name) {
			return s.at(n.Pos(), "uses the global rand."+n.Sel.Name, "global randomness cannot be repeated; use a named stream of the job's seed"), true
		}
	}
	return Violation{}, false
}

// importName returns a file's name for an imported package.
func importName(s *source, p string) string {
	for _, spec := range s.ast.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err == nil && value == p && spec.Name != nil {
			return spec.Name.Name
		}
	}
	if base := path.Base(p); base != "v2" {
		return base
	}
	return path.Base(path.Dir(p))
}
