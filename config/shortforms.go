package config

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// machineFields are the fields of an entry of resources.any_of that may be in resources itself, if there is only one entry.
var machineFields = []string{"type", "cpus", "memory", "arch"}

// shortForms expands the short forms of a job file: `resources: {cpus: 4+}` to `resources: {any_of: [{cpus: 4+}]}`, and a type to an entry
// of any_of. What makes no sense stays, to be reported in its place.
func shortForms(root *yaml.Node) {
	resources := fieldNode(root, "resources")
	if resources == nil || resources.Kind != yaml.MappingNode {
		return
	}
	if list := fieldNode(resources, "any_of"); list != nil {
		if list.Kind == yaml.ScalarNode && list.Value != "" {
			*list = yaml.Node{Kind: yaml.SequenceNode, Line: list.Line, Column: list.Column, Content: []*yaml.Node{machineNode(list)}}
		}
		for i, item := range list.Content {
			if list.Kind == yaml.SequenceNode && item.Kind == yaml.ScalarNode && item.Value != "" && item.Anchor == "" {
				list.Content[i] = machineNode(item)
			}
		}
		return
	}
	entry := &yaml.Node{Kind: yaml.MappingNode}
	var rest, entries []*yaml.Node
	for i := 0; i+1 < len(resources.Content); i += 2 {
		key, content := resources.Content[i], resources.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(machineFields, key.Value):
			rest = append(rest, key, content)
			continue
		case key.Value == "type" && content.Kind == yaml.SequenceNode: // several types
			for _, item := range content.Content {
				entries = append(entries, machineNode(item))
			}
		default:
			entry.Content = append(entry.Content, key, content)
		}
		if entry.Line == 0 {
			entry.Line, entry.Column = key.Line, key.Column
		}
	}
	if len(entry.Content) > 0 {
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return
	}
	key := textNode("any_of")
	key.Line, key.Column = entry.Line, entry.Column
	resources.Content = append(rest, key, &yaml.Node{Kind: yaml.SequenceNode, Line: entry.Line, Column: entry.Column, Content: entries})
}

// machineNode returns an entry of any_of for a type that is named without the field.
func machineNode(name *yaml.Node) *yaml.Node {
	if name.Kind != yaml.ScalarNode {
		return name
	}
	key, copied := textNode("type"), *name
	key.Line, key.Column = name.Line, name.Column
	return &yaml.Node{Kind: yaml.MappingNode, Line: name.Line, Column: name.Column, Content: []*yaml.Node{key, &copied}}
}
