// Package archtest enforces the architecture (docs/architecture.md): which package may import which, which packages stay pure, and a few
// house rules, each with its reason. `go test` runs it over the whole tree.
//
// It reads source text with the standard library alone, so that it works on code that does not compile. It knows the types of one package
// at a time: a rule that needs those of its imports does not belong here.
package archtest

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path that our own packages are imported by.
const Module = "github.com/tierml/tierml"

// Violation is one place where a rule is broken.
type Violation struct {
	File   string // path in the repository
	Line   int    // 0 if it is about the whole file or folder
	Breach string // the offending text
	Reason string // why it is forbidden, and what to do instead
}

// String returns "market/x.go:7: imports net; pure packages ...".
func (v Violation) String() string {
	place := v.File
	if v.Line > 0 {
		place += ":" + strconv.Itoa(v.Line)
	}
	return place + ": " + v.Breach + "; " + v.Reason
}

// source is one Go file.
type source struct {
	path string // in the repository
	dir  string // package folder in the repository; "." is the root
	text []byte
	set  *token.FileSet
	ast  *ast.File
}

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) generated() bool { return ast.IsGenerated(s.ast) }

func (s *source) at(pos token.Pos, breach, reason string) Violation {
	return Violation{File: s.path, Line: s.set.Position(pos).Line, Breach: breach, Reason: reason}
}

// imports calls f for each import with its path.
func (s *source) imports(f func(path string, pos token.Pos)) {
	for _, spec := range s.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			f(p, spec.Pos())
		}
	}
}

// Check checks a whole repository and returns every breach, sorted by place.
func Check(repository fs.FS) ([]Violation, error) {
	var sources []*source
	var violations []Violation
	var makefile []byte
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(name) {
				return fs.SkipDir
			}
			return nil
		}
		if !textFile(name) {
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		violations = append(violations, checkPaths(name, text)...)
		if name == "Makefile" {
			makefile = text
		}
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		s, err := parse(name, text)
		if err != nil {
			return fmt.Errorf("archtest: %w", err)
		}
		sources = append(sources, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	violations = append(violations, checkSources(sources)...)
	violations = append(violations, checkRaced(sources, makefile)...)
	slices.SortStableFunc(violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return violations, nil
}

func parse(name string, text []byte) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{path: name, dir: path.Dir(name), text: text, set: set, ast: file}, nil
}

func checkSources(sources []*source) []Violation {
	var violations []Violation
	for _, s := range sources {
		violations = append(violations, checkArrows(s)...)
		violations = append(violations, checkPurity(s)...)
		violations = append(violations, checkLength(s)...)
	}
	violations = append(violations, checkComments(sources)...)
	violations = append(violations, checkSingleImporters(sources)...)
	violations = append(violations, checkSizes(sources)...)
	violations = append(violations, checkReach(sources)...)
	violations = append(violations, checkOrder(sources)...)
	said := map[string]bool{} // one reason is enough
	for _, v := range violations {
		said[fmt.Sprint(v.File, v.Line)] = true
	}
	for _, v := range checkFloors(sources) {
		if !said[fmt.Sprint(v.File, v.Line)] {
			violations = append(violations, v)
		}
	}
	return violations
}

// skipped folders contain other people's files, or build results and runs.
func skipped(dir string) bool {
	switch dir {
	case "bin", "runs":
		return true
	}
	base := path.Base(dir)
	return base == "node_modules" || dir != "." && strings.HasPrefix(base, ".") && base != ".ci"
}

// textFile reports whether a file's text is ours to check.
func textFile(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".yaml", ".yml", ".sh", ".py", ".proto", ".tf", ".js", ".html", ".css", ".txt", ".txtar", ".golden", ".json", ".jsonl", ".mod":
		return true
	}
	return name == "Makefile" || name == ".ci/run"
}

// maxLines is the size above which a file must be split.
const maxLines = 600

func checkLength(s *source) []Violation {
	if lines := bytes.Count(s.text, []byte{'\n'}); lines > maxLines && !s.generated() {
		return []Violation{{File: s.path, Breach: fmt.Sprintf("has %d lines", lines),
			Reason: fmt.Sprintf("a file longer than %d lines holds more than one idea; split it by idea", maxLines)}}
	}
	return nil
}

// checkComments requires a package comment somewhere in each package.
func checkComments(sources []*source) []Violation {
	commented, first := map[string]bool{}, map[string]string{}
	for _, s := range sources {
		if s.test() {
			continue
		}
		if s.ast.Doc != nil && strings.TrimSpace(s.ast.Doc.Text()) != "" || s.generated() {
			commented[s.dir] = true
		}
		if first[s.dir] == "" || s.path < first[s.dir] {
			first[s.dir] = s.path
		}
	}
	var violations []Violation
	for dir, file := range first {
		if !commented[dir] {
			violations = append(violations, Violation{File: file, Breach: "its package has no comment",
				Reason: "the package comment says what a package is for and what it knows nothing about; write one in one of its files"})
		}
	}
	return violations
}

// machinePaths are prefixes of paths that exist on one machine only.
var machinePaths = [][]byte{
	[]byte("/work" + "/"), []byte("/home" + "/"), []byte("/Users" + "/"), []byte("/root" + "/"), []byte("C:" + `\`),
}

func checkPaths(name string, text []byte) []Violation {
	var violations []Violation
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		for _, prefix := range machinePaths {
			if at := bytes.Index(line, prefix); at >= 0 && (at == 0 || !wordByte(line[at-1])) {
				violations = append(violations, Violation{File: name, Line: i + 1, Breach: "names a path of one machine, " + string(prefix),
					Reason: "nobody else has it; write a path relative to the repository"})
			}
		}
	}
	return violations
}

// wordByte distinguishes a path that starts here from the end of a longer path.
func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.' || b == '}' || b == ')'
}
