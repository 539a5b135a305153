package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
)

// decoder fills a Job from YAML nodes and collects every mistake on the way.
type decoder struct {
	file      string
	lookup    func(string) (string, bool)
	env       map[string]string
	positions map[string]position
	// meant are the fields that a misspelt name probably stands for: they are not reported as missing.
	meant  map[string]bool
	faults Faults
	more   int // faults that are not reported
}

func (d *decoder) fault(field string, n *yaml.Node, problem, instead string) {
	if len(d.faults) == mostFaults {
		d.more++
		return
	}
	d.faults = append(d.faults, Fault{
		File: d.file, Line: n.Line, Column: n.Column, Field: field, Problem: problem, Instead: instead,
	})
}

// field is one entry of the schema.
type field struct {
	name  string
	flags []string // of the job tag
	index []int
}

func (f field) has(flag string) bool { return slices.Contains(f.flags, flag) }

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, f := range reflect.VisibleFields(t) { // including those of embedded structs
		if name := f.Tag.Get("yaml"); name != "" {
			fields = append(fields, field{name, strings.Split(f.Tag.Get("job"), ","), f.Index})
		}
	}
	return fields
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// mapping fills the struct that target points to.
func (d *decoder) mapping(path string, n *yaml.Node, target any) {
	fields := membersOf(reflect.ValueOf(target).Elem())
	seen := d.entries(path, n, func(key, content *yaml.Node) {
		i := slices.IndexFunc(fields, func(f member) bool { return f.name == key.Value })
		if i < 0 {
			d.unknown(path, key, fields)
			return
		}
		d.value(join(path, key.Value), content, fields[i].value, fields[i].field)
	})
	for _, f := range fields {
		if f.has("required") && !seen[f.name] && !d.meant[join(path, f.name)] {
			d.fault(join(path, f.name), n, "is missing", "add "+example(join(path, f.name)))
		}
	}
}

// entries calls visit for each entry of a mapping and returns its names.
func (d *decoder) entries(path string, n *yaml.Node, visit func(key, content *yaml.Node)) map[string]bool {
	seen := map[string]bool{}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return seen // "train:" with nothing below is the same as no entry
	}
	if n.Kind != yaml.MappingNode {
		instead := "write them below it, indented, one `name: value` a line"
		if text, known := examples[path]; known && strings.Contains(text, "{") {
			instead = "write " + text
		}
		d.fault(path, n, "is "+kindOf(n)+" but has fields of its own", instead)
		return seen
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, content := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			d.fault(path, key, "uses a YAML merge (<<)", "write the fields out")
		case key.Kind != yaml.ScalarNode:
			d.fault(path, key, "has a name that is not plain text", "write `name: value`")
		case first[key.Value] > 0:
			d.fault(join(path, key.Value), key, fmt.Sprintf("is there twice; first on line %d", first[key.Value]), "keep one")
		default:
			first[key.Value], seen[key.Value] = key.Line, true
			visit(key, content)
		}
	}
	return seen
}

// value reads one field of any kind.
func (d *decoder) value(path string, n *yaml.Node, target reflect.Value, f field) {
	d.positions[path] = position{n.Line, n.Column}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fault(path, n, "uses a YAML anchor or alias", "write the value out")
		return
	}
	switch {
	case isScalar(target.Type()):
		d.scalar(path, n, target, f)
	case target.Type() == reflect.TypeFor[Reliable]() && n.Kind == yaml.ScalarNode && n.Value == Auto: // reliable: auto, as if nothing was written
	case target.Type() == reflect.TypeFor[Tuning]() && n.Kind == yaml.ScalarNode: // on or off
		var on bool
		if d.scalar(path, n, reflect.ValueOf(&on).Elem(), f); on {
			target.Set(reflect.ValueOf(Tuning{}))
		}
	case target.Kind() == reflect.Struct:
		d.mapping(path, n, target.Addr().Interface())
	case target.Type() == reflect.TypeFor[Choices]() && n.Kind == yaml.ScalarNode: // a range
		target.Set(reflect.ValueOf(Choices{n.Value}))
	case target.Kind() == reflect.Slice:
		d.list(path, n, target, f)
	case target.Type() == reflect.TypeFor[Manifest]():
		d.manifest(path, n, target)
	case target.Kind() == reflect.Map:
		d.names(path, n, target)
	default:
		panic("config: no reader for " + target.Type().String())
	}
}

func isScalar(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[CPUs](), reflect.TypeFor[Memory](), reflect.TypeFor[GPU](), reflect.TypeFor[Machines]():
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Slice && t.Kind() != reflect.Map
}

func (d *decoder) list(path string, n *yaml.Node, target reflect.Value, f field) {
	items := n.Content
	switch short := target.Type().Elem() == reflect.TypeFor[GPU](); {
	case short && n.Kind == yaml.ScalarNode:
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		instead := "write one `- item` a line"
		if short {
			instead = "write " + example(path)
		} else if n.Kind == yaml.ScalarNode && n.Value != "" {
			instead = fmt.Sprintf("write [%s]", n.Value)
		}
		d.fault(path, n, "is "+kindOf(n)+" but should be a list", instead)
		return
	}
	for i, item := range items {
		element := reflect.New(target.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct && !isScalar(element.Type()) && item.Kind == yaml.ScalarNode {
			d.fault(fmt.Sprintf("%s[%d]", path, i), item, fmt.Sprintf("%q has no field name", item.Value),
				"write "+example(path+"[]"))
			continue
		}
		d.value(fmt.Sprintf("%s[%d]", path, i), item, element, f)
		target.Set(reflect.Append(target, element))
	}
}

// names reads a mapping whose names the user chooses.
func (d *decoder) names(path string, n *yaml.Node, target reflect.Value) {
	if path == "env" {
		return // read before everything else
	}
	target.Set(reflect.MakeMap(target.Type()))
	d.entries(path, n, func(key, content *yaml.Node) {
		element := reflect.New(target.Type().Elem()).Elem()
		d.value(join(path, key.Value), content, element, field{})
		target.SetMapIndex(reflect.ValueOf(key.Value), element)
	})
}

// manifest reads a mapping by YAML's rules, without aliases.
func (d *decoder) manifest(path string, n *yaml.Node, target reflect.Value) {
	for at := []*yaml.Node{n}; len(at) > 0; at = append(at[1:], at[0].Content...) {
		if at[0].Kind == yaml.AliasNode || at[0].Anchor != "" || at[0].Tag == "!!merge" {
			d.fault(path, at[0], "uses a YAML anchor, alias or merge", "write the value out")
			return
		}
	}
	var fields map[string]any // not a Manifest, or the nested mappings would be, too
	if err := n.Decode(&fields); err != nil || n.Kind != yaml.MappingNode {
		d.fault(path, n, "is no mapping that can be read", "write "+example(path))
	}
	target.Set(reflect.ValueOf(Manifest(fields)))
}

func (d *decoder) scalar(path string, n *yaml.Node, target reflect.Value, f field) {
	if n.Kind != yaml.ScalarNode {
		d.fault(path, n, "is "+kindOf(n)+" but should be one value", "write "+example(path))
		return
	}
	name, variable := strings.CutPrefix(path, "envs.")
	if empty := n.Tag == "!!str" && n.Value == "" && variable; !empty && (n.Tag == "!!null" || n.Value == "") {
		instead := example(path)
		if variable {
			instead = name + `: "" for an empty one`
		}
		d.fault(path, n, "has no value", "write "+instead+", or remove the line")
		return
	}
	text := n.Value
	if f.has("env") {
		var ok bool
		if text, ok = d.substitute(path, n); !ok {
			return
		}
	} else if reference().MatchString(text) && target.Kind() != reflect.String && target.Kind() != reflect.Interface {
		d.fault(path, n, "${NAME} is not replaced here", "write the value; docs/job.md lists the fields where it is replaced")
		return
	}
	if target.Kind() == reflect.Interface {
		target.Set(reflect.ValueOf(freeValue(n)))
		return
	}
	if f.has("hours") && !plainNumber().MatchString(text) {
		if d, m := parseDuration(text); m == nil {
			target.SetFloat(d.Hours())
			return
		}
	}
	value, m := parseScalar(text, target.Type())
	if m != nil {
		d.fault(path, n, m.problem, m.instead)
		return
	}
	target.Set(reflect.ValueOf(value).Convert(target.Type()))
}

// parseScalar reads a text as a value of a type.
func parseScalar(s string, t reflect.Type) (any, *mistake) {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return anyOf(parseDuration(s))
	case reflect.TypeFor[time.Time]():
		return anyOf(parseTime(s))
	case reflect.TypeFor[market.USD]():
		return anyOf(parseUSD(s))
	case reflect.TypeFor[Memory]():
		return anyOf(parseMemory(s))
	case reflect.TypeFor[CPUs]():
		return anyOf(parseCPUs(s))
	case reflect.TypeFor[Machines]():
		return anyOf(parseMachines(s))
	case reflect.TypeFor[GPU]():
		return anyOf(parseGPU(s))
	case reflect.TypeFor[Rate]():
		return anyOf(parseRate(s))
	case reflect.TypeFor[Quantity]():
		return anyOf(parseQuantity(s))
	case reflect.TypeFor[Bandwidth]():
		return anyOf(parseBandwidth(s))
	}
	switch t.Kind() {
	case reflect.String:
		return s, nil
	case reflect.Bool:
		return anyOf(parseBool(s))
	case reflect.Int:
		return anyOf(parseInt(s))
	case reflect.Uint64:
		return anyOf(parseUint(s))
	case reflect.Float64:
		return anyOf(parseNumber(s))
	}
	panic("config: no reader for " + t.String())
}

// freeValue reads a value whose type only the application knows, by YAML's own rules. Whole numbers are int64,
// however they are written.
func freeValue(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!bool":
		if b, m := parseBool(n.Value); m == nil {
			return b
		}
	case "!!int", "!!float":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i
		}
		f, err := strconv.ParseFloat(n.Value, 64)
		switch {
		case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
		case f == math.Trunc(f) && math.Abs(f) < 1<<53:
			return int64(f)
		default:
			return f
		}
	}
	return n.Value
}

func anyOf[T any](v T, m *mistake) (any, *mistake) { return v, m }

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "a YAML alias"
	}
	if n.Value == "" {
		return "empty"
	}
	return "one value"
}

var (
	reference = pattern.Of(`\$\{([^}]*)\}`)
	envName   = pattern.Of(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// readCloud creates the block of the file's cloud before reading into it.
func readCloud(root *yaml.Node, job *Job) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if at := root.Content[i+1]; root.Content[i].Value == "cloud" && at.Kind == yaml.ScalarNode && job.Block == nil {
			job.Cloud, job.Block = at.Value, blockFor(at.Value)
		}
	}
	if fieldNode(root, "cloud") != nil {
		return
	}
	job.Cloud = CloudLocal // except for a file with one provider's settings
	for _, real := range RealClouds() {
		if fieldNode(root, real) != nil {
			job.Cloud, job.Block = real, blockFor(real)
			return
		}
	}
}

// readEnv reads the env block first, as other fields refer to it.
func (d *decoder) readEnv(root *yaml.Node) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "env" {
			continue
		}
		block := root.Content[i+1]
		d.positions["env"] = position{block.Line, block.Column}
		d.entries("env", block, func(key, content *yaml.Node) { d.readVariable(key, content) })
		return
	}
}

func (d *decoder) readVariable(key, content *yaml.Node) {
	path := "env." + key.Value
	switch {
	case !envName().MatchString(key.Value):
		d.fault(path, key, fmt.Sprintf("%q cannot name a variable", key.Value), "use letters, digits and _, not starting with a digit")
	case content.Kind != yaml.ScalarNode || content.Anchor != "":
		d.fault(path, content, "is "+kindOf(content)+" but should be one value", "write "+key.Value+": value")
	case strings.Contains(content.Value, "${"):
		d.fault(path, content, "refers to another variable", "write the value itself")
	case content.Tag != "!!null":
		d.env[key.Value] = content.Value
	default:
		value, ok := d.lookup(key.Value)
		if strings.Contains(value, "${") {
			d.fault(path, key, "has ${ in its value, taken from the environment", "write the value itself")
		}
		if !ok {
			d.fault(path, key, "has no value, and the environment does not set it",
				fmt.Sprintf("write %s: value, or run `export %s=value` first", key.Value, key.Value))
		}
		d.env[key.Value] = value
	}
}

// substitute replaces ${NAME} by the value of env; ok is false after a mistake.
func (d *decoder) substitute(path string, n *yaml.Node) (text string, ok bool) {
	ok = true
	text = reference().ReplaceAllStringFunc(n.Value, func(s string) string {
		name := s[2 : len(s)-1]
		value, known := d.env[name]
		if !known {
			ok = false
			d.fault(path, n, fmt.Sprintf("%s is not in env", s), fmt.Sprintf("add %s: value below env:", name))
		}
		return value
	})
	if ok && text == "" && n.Value != "" {
		d.fault(path, n, "is empty once ${NAME} is replaced", "give the variable a value below env:")
		return "", false
	}
	return text, ok
}
