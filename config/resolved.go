package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
)

// Resolved prints the job with every default filled in and every ${NAME} replaced, as a job file that loads to the same job from any folder
// (paths are absolute). Env is left out: nothing refers to it any more, and its values may be private. So are fields whose value means
// "none".
func (j *Job) Resolved() []byte {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(j.resolvedNode()); err != nil {
		panic("config: a tree of plain nodes did not encode: " + err.Error())
	}
	return b.Bytes()
}

// MarshalJSON returns Resolved's output as JSON, in the job file's own words.
func (j *Job) MarshalJSON() ([]byte, error) {
	return json.Marshal(plain(j.resolvedNode()))
}

func (j *Job) resolvedNode() *yaml.Node {
	withoutEnv := *j
	withoutEnv.Env = nil
	if j.anySize && j.Resources.AnyOf[0].Type == "" {
		withoutEnv.Resources.AnyOf = nil // the planner chooses the type, where the job runs
	}
	if j.Cloud != CloudLocal {
		withoutEnv.Local = Local{}
	}
	if j.OnTiers() {
		withoutEnv.Train = Train{} // follows from the rest
	}
	if j.Cloud == CloudNone {
		withoutEnv.Reliable, withoutEnv.Policy, withoutEnv.Checkpoint = Reliable{}, "", Checkpoint{}
	}
	var zeros []string // that are written even if everything in them is 0: left out, they would have their defaults
	switch {
	case j.Cloud == CloudNone, j.Run != "":
	case j.Hosts != Hosts{}:
		zeros = []string{"reliable"}
	default:
		zeros = []string{"reliable", "stages"}
	}
	return structNode(reflect.ValueOf(&withoutEnv).Elem(), zeros...)
}

func structNode(v reflect.Value, zeros ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range membersOf(v) {
		if !m.value.IsZero() || m.has("zero") || slices.Contains(zeros, m.name) {
			n.Content = append(n.Content, scalarNode(m.name), valueNode(m.value))
		}
	}
	return n
}

func valueNode(v reflect.Value) *yaml.Node {
	switch {
	case isScalar(v.Type()):
		return scalarNode(formatScalar(v))
	case v.Type() == reflect.TypeFor[Tuning]() && v.Len() == 0:
		return scalarNode("true")
	case v.Kind() == reflect.Struct:
		return structNode(v)
	case v.Kind() == reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, valueNode(v.Index(i)))
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(stringKeys(v))) {
		value := v.MapIndex(reflect.ValueOf(name))
		if value.Kind() == reflect.Struct || value.Kind() == reflect.Slice {
			n.Content = append(n.Content, textNode(name), valueNode(value))
			continue
		}
		n.Content = append(n.Content, textNode(name), freeNode(value.Interface()))
	}
	return n
}

func stringKeys(v reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, k := range v.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

func formatScalar(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
	case time.Time:
		return value.UTC().Format(time.RFC3339Nano)
	case market.USD:
		return "$" + value.String()
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
}

// plainDecimal is a number that JSON and YAML write alike.
var plainDecimal = pattern.Of(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// scalarNode leaves numbers, true, false and times plain, and quotes what YAML would not parse as a string.
func scalarNode(s string) *yaml.Node {
	n := textNode(s)
	if _, m := parseTime(s); m == nil || plainDecimal().MatchString(s) || s == "true" || s == "false" {
		n.Tag = ""
	}
	return n
}

// textNode is quoted if YAML would not parse it as a string.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	n.Tag = "!!str"
	return n
}

// freeNode prints what freeValue reads back.
func freeNode(value any) *yaml.Node {
	if s, ok := value.(string); ok {
		return textNode(s)
	}
	n := &yaml.Node{}
	if err := n.Encode(value); err != nil {
		panic("config: a plain value did not encode: " + err.Error())
	}
	return n
}

// plain turns nodes into maps, slices and strings for encoding/json.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = plain(item)
		}
		return list
	}
	if n.Tag == "!!str" {
		return n.Value
	}
	var value any = n.Value
	if err := n.Decode(&value); err != nil {
		return n.Value
	}
	return value
}
