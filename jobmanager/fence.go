package jobmanager

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
)

// Fence limits the job files of a group: for each field in it, by its path ("kubernetes.namespace"), the permitted values. An empty value
// permits omitting the field.
type Fence map[string][]string

// fenced are fields that select others' rights by a name, where the job server's own rights reach them all. A group's jobs may use such a
// cloud only if its fence has all of these.
var fenced = map[string][]string{"kubernetes": {"namespace", "service_account", "image"}}

// closed are fields that no list of values can fence. No group's job may have them.
var closed = map[string][]string{"kubernetes": {"pod"}}

// refuses returns why the group may not submit a job; nil = it may.
func (f Fence) refuses(group string, job *config.Job) error {
	return f.refusesText(group, job.Cloud, job.Resolved())
}

// refusesText checks a job file that has been read and resolved.
func (f Fence) refusesText(group, cloud string, resolved []byte) error {
	for _, field := range fenced[cloud] {
		if f[cloud+"."+field] == nil {
			return refuse(http.StatusForbidden, "group %s has no fence for %s.%s, so its jobs may not use cloud: %[2]s: add one to the file of --groups", group, cloud, field)
		}
	}
	var file map[string]any
	if err := yaml.Unmarshal(resolved, &file); err != nil {
		return fmt.Errorf("reading a job again: %w", err)
	}
	for _, field := range closed[cloud] {
		if _, there := valueOf(file, cloud+"."+field); there {
			return refuse(http.StatusForbidden, "group %s may not write %s.%s: volumes and secrets of a namespace are other groups', too", group, cloud, field)
		}
	}
	for field, allowed := range f { // in any order: one reason will do
		value, there := valueOf(file, field)
		if block, _, below := strings.Cut(field, "."); !there && below && file[block] == nil {
			continue // of a cloud that the job does not use
		}
		if !slices.Contains(allowed, value) {
			return refuse(http.StatusForbidden, "%s: %q is none of what group %s may write: %s", field, value, group, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// valueOf returns a field's value as in a file; empty = missing.
func valueOf(file map[string]any, field string) (value string, there bool) {
	for {
		name, rest, below := strings.Cut(field, ".")
		v, ok := file[name]
		switch {
		case !ok || v == nil:
			return "", false
		case !below:
			return fmt.Sprint(v), true
		}
		if file, ok = v.(map[string]any); !ok {
			return "", false
		}
		field = rest
	}
}

// readFence reads a mapping of fields to lists of values, or to one.
func readFence(n *yaml.Node) (Fence, error) {
	f := Fence{}
	err := fieldsOf(n, "fence", func(field string, n *yaml.Node) error {
		if !slices.Contains(config.Fields(), field) && fenced[strings.Split(field, ".")[0]] == nil {
			return unknownField(n, field, config.Fields()...)
		}
		if n.Kind == yaml.ScalarNode {
			n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
		}
		f[field] = []string{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return faultAt(item, "fence.%s: write a list of values", field)
			}
			f[field] = append(f[field], item.Value)
		}
		return nil
	})
	return f, err
}
