package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// orderClaim is a package comment's claim about its files, with the number of exceptions.
var orderClaim = regexp.MustCompile(`Each file uses only those before it(?:, with (\d+) exceptions?)?: ([^.]+)\.`)

// checkOrder checks the order of files that package comments claim: a file uses only its own declarations and those of earlier files.
// Imports are ignored, so that a use through a value of another package's type is not detected.
func checkOrder(sources []*source) []Violation {
	packages := map[string][]*source{}
	for _, s := range sources {
		if !s.test() && !s.generated() {
			packages[s.dir] = append(packages[s.dir], s)
		}
	}
	var violations []Violation
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		for _, s := range packages[dir] {
			comment := strings.Join(strings.Fields(s.ast.Doc.Text()), " ")
			if claim := orderClaim.FindStringSubmatch(comment); claim != nil {
				exceptions, _ := strconv.Atoi(claim[1])
				violations = append(violations, checkFiles(s, packages[dir], strings.Split(claim[2], ", "), exceptions)...)
			}
		}
	}
	return violations
}

// checkFiles compares a package's files with the list in a file's comment.
func checkFiles(claim *source, files []*source, list []string, exceptions int) []Violation {
	place, listed, there := map[string]int{}, slices.Sorted(slices.Values(list)), []string{}
	for i, name := range list {
		place[path.Join(claim.dir, name+".go")] = i
	}
	for _, f := range files {
		there = append(there, strings.TrimSuffix(path.Base(f.path), ".go"))
	}
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		return []Violation{claim.at(claim.ast.Name.Pos(), "the order of files names "+strings.Join(listed, ", "), "the files are "+strings.Join(there, ", "))}
	}
	var back []string
	uses(files, func(user, declarer token.Position, name string) {
		if place[declarer.Filename] > place[user.Filename] {
			back = append(back, fmt.Sprintf("%s:%d uses %s of %s", path.Base(user.Filename), user.Line, name, path.Base(declarer.Filename)))
		}
	})
	if len(back) == exceptions {
		return nil
	}
	slices.Sort(back)
	return []Violation{claim.at(claim.ast.Name.Pos(), fmt.Sprintf("the order of files has %d exceptions, not %d: %s", len(back), exceptions, strings.Join(back, ", ")),
		"move what is used to the file that uses it or to one before, or correct the package's comment")}
}

// uses calls f for each use of a function, type, method, field or variable of the package.
func uses(files []*source, f func(user, declarer token.Position, name string)) {
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, s := range files {
		if file, err := parser.ParseFile(set, s.path, s.text, parser.SkipObjectResolution); err == nil { // parse reports it
			parsed = append(parsed, file)
		}
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, Importer: blind{}}
	_, _ = config.Check(files[0].dir, set, parsed, &info) // what depends on imports is in error
	for id, object := range info.Uses {
		if object.Pkg() != nil && object.Pkg().Path() == files[0].dir && object.Pos().IsValid() {
			f(set.Position(id.Pos()), set.Position(object.Pos()), id.Name)
		}
	}
}

// blind imports nothing.
type blind struct{}

func (blind) Import(string) (*types.Package, error) {
	return nil, errors.New("imports are not looked at")
}
