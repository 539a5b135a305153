package archtest

import (
	"fmt"
	"go/ast"
)

// A type of ours that is larger than this holds more than one idea.
const (
	mostFields  = 30
	mostMethods = 60
)

// larger are the types that may be larger, each up to the numbers here and with its reason.
var larger = map[string]size{
	"internal/journal.Entry": {fields: 38, reason: "a journal line's fields in one place: each kind of line has a few"},
}

// size is the size of a type, or its limit if the bounds do not apply; 0 = the bound applies.
type size struct {
	fields, methods int
	reason          string
}

// structure is a type as written.
type structure struct {
	size
	in   *source // where its fields are
	spec *ast.TypeSpec
}

// checkSizes counts the fields and methods of each type. An embedded field counts as one: its members belong to its own type. Tests and
// generated files do not count.
func checkSizes(sources []*source) []Violation {
	types := map[string]*structure{}
	methods := map[string]int{}
	for _, s := range sources {
		if s.test() || s.generated() {
			continue
		}
		for _, declared := range s.ast.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					methods[s.dir+"."+name]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						types[s.dir+"."+t.Name.Name] = &structure{size: size{fields: fieldsOf(t)}, in: s, spec: t}
					}
				}
			}
		}
	}
	var violations []Violation
	for name, t := range types {
		t.methods = methods[name]
		violations = append(violations, t.check(name)...)
	}
	return violations
}

func (t *structure) check(name string) (violations []Violation) {
	may, excepted := larger[name]
	if excepted && t.fields <= mostFields && t.methods <= mostMethods {
		return []Violation{t.in.at(t.spec.Pos(), t.spec.Name.Name+" is no longer large", "remove the exception from internal/archtest")}
	}
	for _, c := range []struct {
		what      string
		has, most int
	}{{"fields", t.fields, max(mostFields, may.fields)}, {"methods", t.methods, max(mostMethods, may.methods)}} {
		if c.has > c.most {
			violations = append(violations, t.in.at(t.spec.Pos(), fmt.Sprintf("%s has %d %s", t.spec.Name.Name, c.has, c.what),
				fmt.Sprintf("a type with more than %d holds more than one idea; give one of them a type and a name of its own", c.most)))
		}
	}
	return violations
}

// fieldsOf counts the fields of a struct; 0 for another type.
func fieldsOf(t *ast.TypeSpec) (n int) {
	s, ok := t.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// receiver returns the name of a method's type; "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
