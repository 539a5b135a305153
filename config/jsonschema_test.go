package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// schemaFile is the JSON schema of job files, for editors. TestJSONSchema makes it from the structs, like the lists of docs/job.md;
// tools/schema tests it with a validator on the project's job files.
const schemaFile = "../docs/job.schema.json"

type schemaNode = map[string]any

func TestJSONSchema(t *testing.T) {
	described := map[string]described{}
	for _, d := range everyField(t) {
		described[d.path] = d
	}
	root := schemaOf(described, "", reflect.ValueOf(&Job{}).Elem())
	root["type"] = "object"
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "TierML job"
	root["description"] = "A job file of TierML. docs/job.md describes the fields."
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if kept, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(kept, made.Bytes()) {
		t.Errorf("docs/job.schema.json is out of date (%v): write it by `make golden`, and read the difference", err)
	}
}

// schemaOf returns the schema of a struct of the job file.
func schemaOf(described map[string]described, path string, of reflect.Value) schemaNode {
	properties, required := schemaNode{}, []string{}
	for _, m := range membersOf(of) {
		at := join(path, m.name)
		d := described[at]
		node := valueSchema(described, at, m)
		valueRules(at, node)
		node["description"] = plainText(d.text) + defaultOf(d.fallback)
		properties[m.name] = node
		if m.has("required") {
			required = append(required, m.name)
		}
	}
	if path == "resources" { // what shortForms expands
		machine := schemaOf(described, "resources.any_of[]", reflect.ValueOf(&Machine{}).Elem())["properties"].(schemaNode)
		for _, name := range machineFields {
			properties[name] = machine[name]
		}
		properties["type"] = anyOfSchemas(machine["type"].(schemaNode), schemaNode{"type": "array", "items": schemaNode{"type": "string"}})
		properties["any_of"] = anyOfSchemas(properties["any_of"].(schemaNode), schemaNode{"type": "string"})
	}
	if _, real := ProviderNamed(path); real { // replaced with its contents by install
		properties["installation"] = schemaNode{"type": "string", "description": "a file or address with the settings of an installation, as Terraform's output `settings`"}
	}
	node := schemaNode{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		node["required"] = required
	}
	if rules := rulesOf(path); len(rules) > 0 {
		node["allOf"] = rules
	}
	return node
}

func anyOfSchemas(all ...schemaNode) schemaNode {
	node := schemaNode{}
	for _, one := range all {
		if text, ok := one["description"]; ok {
			node["description"] = text
			delete(one, "description")
		}
	}
	node["anyOf"] = all
	return node
}

// valueSchema returns the schema of one field of any kind.
func valueSchema(described map[string]described, path string, m member) schemaNode {
	t := m.value.Type()
	switch {
	case t == reflect.TypeFor[Choices]():
		return schemaNode{"type": []string{"array", "string"}, "items": schemaNode{"type": []string{"string", "number", "boolean"}},
			"minItems": 1, "pattern": `\.\.|\$\{`}
	case t == reflect.TypeFor[Tuning]():
		return anyOfSchemas(schemaNode{"type": "boolean"}, schemaNode{"type": "object", "additionalProperties": elementSchema(described, path, t)})
	case t == reflect.TypeFor[Reliable]():
		return anyOfSchemas(schemaOf(described, path, m.value), schemaNode{"const": Auto})
	case isScalar(t):
		return scalarSchema(path, m.field, t)
	case t.Kind() == reflect.Struct:
		return schemaOf(described, path, m.value)
	case t.Kind() == reflect.Map:
		return schemaNode{"type": []string{"object", "null"}, "additionalProperties": elementSchema(described, path, t)}
	}
	items := elementSchema(described, path, t)
	switch t.Elem() {
	case reflect.TypeFor[GPU](): // one may stand without the list
		return anyOfSchemas(schemaNode{"type": "array", "items": items}, items)
	case reflect.TypeFor[Machine](): // a type may stand for its entry
		items = anyOfSchemas(items, schemaNode{"type": "string"})
	}
	return schemaNode{"type": "array", "items": items}
}

// elementSchema returns the schema of the elements of a list or a mapping.
func elementSchema(described map[string]described, path string, t reflect.Type) schemaNode {
	element := member{value: reflect.New(t.Elem()).Elem()}
	if t.Elem().Kind() == reflect.Interface {
		return schemaNode{}
	}
	if t.Kind() == reflect.Slice {
		path += "[]"
	}
	return valueSchema(described, path, element)
}

// scalarSchema returns the schema of one value, as parseScalar reads it.
func scalarSchema(path string, f field, t reflect.Type) schemaNode {
	if words, ok := choices[path]; ok {
		return schemaNode{"enum": words}
	}
	const number = `[0-9]+(\.[0-9]+)?`
	text := func(pattern string, more ...string) schemaNode {
		return schemaNode{"type": append([]string{"string"}, more...), "pattern": "^(" + pattern + ")$"}
	}
	var node schemaNode
	switch t {
	case reflect.TypeFor[time.Duration]():
		units := make([]string, 0, len(unitWords))
		for word := range unitWords {
			units = append(units, word)
		}
		slices.Sort(units)
		node = text(`0|(`+number+`(ms|us|µs|ns|w|d|h|m|s))+|`+number+` *(`+strings.Join(units, "|")+`)`, "integer")
		node["maximum"] = 0 // a number without a unit
	case reflect.TypeFor[time.Time]():
		node = text(`(19[7-9]\d|20\d\d|21\d\d|2200)-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)
	case reflect.TypeFor[market.USD]():
		node = text(`\$?[0-9]+(\.[0-9]{1,9})?`, "number")
		node["minimum"], node["maximum"] = 0, 1_000_000_000
	case reflect.TypeFor[Memory]():
		node = text(number+` ?([MGTmgt]i?[Bb]?)?\+?`, "number")
		node["exclusiveMinimum"] = 0
	case reflect.TypeFor[CPUs]():
		node = text(`[1-9][0-9]*\+?`, "integer")
		node["minimum"] = 1
	case reflect.TypeFor[Machines]():
		node = text(`[0-9]+(\.\.[0-9]+)?`, "integer")
		node["minimum"] = 0
	case reflect.TypeFor[GPU]():
		node = text(`[^ ]+`)
	case reflect.TypeFor[Rate](), reflect.TypeFor[Quantity]():
		node = text(number+`[kKMG]?`, "number")
		node["minimum"] = 1
	case reflect.TypeFor[Bandwidth]():
		node = text(number + ` ?[kMG](bit/s|bps|B/s)`)
	default:
		switch t.Kind() {
		case reflect.Bool:
			node = schemaNode{"type": "boolean"}
		case reflect.Int, reflect.Uint64:
			node = schemaNode{"type": "integer", "minimum": 0}
		case reflect.Float64:
			node = schemaNode{"type": "number", "minimum": 0}
		default:
			node = schemaNode{"type": []string{"string", "number", "boolean"}}
		}
	}
	if l, ok := limits[path]; ok {
		addLimits(node, l.text)
	}
	if f.has("hours") {
		node = anyOfSchemas(node, scalarSchema("", field{}, reflect.TypeFor[time.Duration]()))
	}
	if f.has("env") && t.Kind() != reflect.String {
		node = anyOfSchemas(node, text(`.*\$\{[^}]*\}.*`))
	}
	return node
}

var (
	between = regexp.MustCompile(`^(\d+) to (\d+)$`)
	fromOn  = regexp.MustCompile(`^from (\d+)$`)
)

// addLimits adds a number's limits from the list on the page; limits that are not a plain range are left to the program.
func addLimits(node schemaNode, limit string) {
	bound := func(digits string) int { n, _ := strconv.Atoi(digits); return n }
	switch m := between.FindStringSubmatch(limit); {
	case m != nil:
		node["minimum"], node["maximum"] = bound(m[1]), bound(m[2])
	case limit == "above $0":
		delete(node, "minimum")
		node["exclusiveMinimum"], node["not"] = 0, schemaNode{"type": "string", "pattern": `^\$?0+(\.0+)?$`}
	case limit == "above 0s":
		delete(node, "maximum")
		node["type"], node["not"] = "string", schemaNode{"pattern": `^[0.]+ *[a-zµ]*$`}
	case limit == "0 to below 1":
		node["minimum"], node["exclusiveMaximum"] = 0, 1
	default:
		if m := fromOn.FindStringSubmatch(limit); m != nil {
			node["minimum"] = bound(m[1])
		}
	}
}

var linkOnPage = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText returns a description without links and marks, for editors.
func plainText(text string) string { return linkOnPage.ReplaceAllString(text, "$1") }

func defaultOf(fallback string) string {
	if fallback == "" || strings.HasPrefix(fallback, "required") {
		return ""
	}
	return ". Default: " + plainText(fallback)
}
