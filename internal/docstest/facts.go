package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// facts are what pages may name.
type facts struct {
	repository fs.FS
	pages      []string
	headings   map[string][]string // by page, as anchors
	targets    map[string]bool     // of the Makefiles, as "lab bench" and ". build"
	commands   map[string]bool     // of tierml, on any level
	flags      map[string]bool     // of any command of tierml
	packages   map[string]bool     // by the last part of their path, and by their name
	names      map[string]bool     // package.Name and package.Type.Member
	tests      map[string]bool
}

func gather(repository fs.FS) (*facts, error) {
	f := &facts{
		repository: repository, headings: map[string][]string{}, targets: map[string]bool{},
		commands: map[string]bool{"help": true, "completion": true}, flags: map[string]bool{"help": true, "version": true, "set": true},
		packages: map[string]bool{}, names: map[string]bool{}, tests: map[string]bool{},
	}
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case path.Ext(name) == ".md":
			return f.addPage(name)
		case path.Base(name) == "Makefile":
			return f.addTargets(name)
		case path.Ext(name) == ".go":
			return f.addGo(name)
		}
		return nil
	})
	return f, err
}

// skipped folders contain what was downloaded, built or left by a run, and inputs of tests.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir == "bin" || dir == "runs" || base == "testdata" || base == "node_modules" || dir != "." && strings.HasPrefix(base, ".")
}

func (f *facts) exists(name string) bool {
	_, err := fs.Stat(f.repository, name)
	return err == nil
}

func (f *facts) addPage(name string) error {
	text, err := fs.ReadFile(f.repository, name)
	if err != nil {
		return err
	}
	f.pages = append(f.pages, name)
	inCode := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
		}
		if heading := strings.TrimLeft(line, "#"); !inCode && heading != line && strings.HasPrefix(heading, " ") {
			f.headings[name] = append(f.headings[name], anchor(heading))
		}
	}
	return nil
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor returns GitHub's anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)

func (f *facts) addTargets(name string) error {
	text, err := fs.ReadFile(f.repository, name)
	if err != nil {
		return err
	}
	for _, m := range target.FindAllStringSubmatch(string(text), -1) {
		f.targets[path.Dir(name)+" "+m[1]] = true
	}
	return nil
}

func (f *facts) addGo(name string) error {
	text, err := fs.ReadFile(f.repository, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "cmd/tierml/") {
		f.addCommands(file)
	}
	if strings.HasSuffix(name, "_test.go") {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				f.tests[d.Name.Name] = true
			}
		}
		return nil
	}
	for _, d := range file.Decls {
		f.addDeclaration(file.Name.Name, d)
	}
	return nil
}

func (f *facts) addName(pkg, name string) {
	f.packages[pkg] = true
	f.names[pkg+"."+name] = true
}

func (f *facts) addDeclaration(pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if receiver := receiverOf(d); receiver != "" {
			name = receiver + "." + name
		}
		f.addName(pkg, name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				f.addName(pkg, spec.Name.Name)
				f.addMembers(pkg, spec)
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					f.addName(pkg, n.Name)
				}
			}
		}
	}
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// addMembers adds fields of structs and methods of interfaces.
func (f *facts) addMembers(pkg string, spec *ast.TypeSpec) {
	var fields *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return
	}
	for _, field := range fields.List {
		for _, n := range field.Names {
			f.addName(pkg, spec.Name.Name+"."+n.Name)
		}
	}
}

var flagMethod = regexp.MustCompile(`^(?:String|Bool|Duration|Float64|Int|Int64|Uint64|StringArray|StringSlice|DurationSlice|StringToString)VarP?$`)

// addCommands finds cobra's commands by their Use and Aliases, and their flags by the calls that define them.
func (f *facts) addCommands(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			if !ok {
				return true
			}
			if list, aliases := n.Value.(*ast.CompositeLit); aliases && key.Name == "Aliases" {
				for _, name := range list.Elts {
					f.commands[literal(name)] = true
				}
			}
			if words := strings.Fields(literal(n.Value)); key.Name == "Use" && len(words) > 0 {
				f.commands[words[0]] = true
			}
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && flagMethod.MatchString(method.Sel.Name) && len(n.Args) > 1 {
				f.flags[literal(n.Args[1])] = true
			}
		}
		return true
	})
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if s, err := strconv.Unquote(l.Value); err == nil {
			return s
		}
	}
	return ""
}
