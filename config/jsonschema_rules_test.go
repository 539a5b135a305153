package config

import (
	"maps"
	"slices"
)

// This file has the combinations of fields that a job file excludes, as far as a schema can express them; the checks of this package cover
// the rest.

// required holds if all of the fields are present.
func required(fields ...string) schemaNode {
	return schemaNode{"type": "object", "required": fields}
}

func not(node schemaNode) schemaNode { return schemaNode{"not": node} }

func allOf(nodes ...schemaNode) schemaNode { return schemaNode{"allOf": nodes} }

// oneOfThese holds if at least one of the fields is present.
func oneOfThese(fields ...string) schemaNode {
	var each []schemaNode
	for _, field := range fields {
		each = append(each, required(field))
	}
	return schemaNode{"anyOf": each}
}

// is holds if a field is present and has this value.
func is(field string, value any) schemaNode {
	return schemaNode{"type": "object", "properties": schemaNode{field: schemaNode{"const": value}}, "required": []string{field}}
}

func ifThen(condition, then schemaNode) schemaNode { return schemaNode{"if": condition, "then": then} }

// rulesOf returns the rules of a struct of the job file.
func rulesOf(path string) (rules []schemaNode) {
	switch path {
	case "":
		needRun := map[string][]string{}
		for _, field := range programFields {
			if field != "sweep" { // has a meaning with train, too
				needRun[field] = []string{"run"}
			}
		}
		rules = []schemaNode{{"dependentRequired": needRun},
			ifThen(required("hosts"), schemaNode{"properties": schemaNode{"cloud": schemaNode{"enum": hostClouds()}}}),
			oneOfThese("run", "train", "hosts"), not(required("run", "train")), not(allOf(is("on_loss", OnLossReplace), oneOfThese("tasks", "sweep"))),
			ifThen(is("cloud", CloudNone), not(oneOfThese("resources", "reliable", "local", "budget", "limits", "alerts", "checkpoint", "security", "tune"))),
			ifThen(allOf(required("hosts"), schemaNode{"type": "object", "properties": schemaNode{"cloud": schemaNode{"enum": names(func(p Provider) bool { return p.OneUser })}},
				"required": []string{"cloud"}}), schemaNode{"properties": schemaNode{"hosts": not(oneOfThese("users", "door"))}}),
			ifThen(required("sweep"), oneOfThese("run", "train")),
			ifThen(allOf(required("run"), schemaNode{"type": "object", "properties": schemaNode{"sweep": required("feedback")}, "required": []string{"sweep"}}), required("state")),
		}
	case "resources":
		rules = []schemaNode{not(required("count", "vcpu"))}
	case "resources.any_of[]":
		rules = []schemaNode{oneOfThese("type", "cpus", "memory", "arch", "gpu"), not(allOf(required("type"), oneOfThese("cpus", "memory", "arch", "gpu")))}
	case "reliable":
		rules = []schemaNode{{"dependentRequired": map[string][]string{"committed": {"type"}}}}
	case "sweep":
		rules = []schemaNode{not(allOf(is("search", SearchGrid), required("samples")))}
	case "train":
		stale := schemaNode{"type": "object", "properties": schemaNode{"staleness": schemaNode{"minimum": 1}}, "required": []string{"staleness"}}
		rules = []schemaNode{required("data"), ifThen(allOf(required("consistency"), not(is("consistency", SSP))), not(stale)),
			ifThen(is("deterministic", true), allOf(not(stale), not(is("consistency", ASP))))}
	case "local": // a recorded market; without one, the program has its own
		rules = []schemaNode{ifThen(oneOfThese("prices", "catalog"), required("prices", "catalog", "start"))}
	case "local.script[]":
		rules = []schemaNode{ifThen(is("target", "all"), not(required("count")))}
		for _, verb := range slices.Sorted(maps.Keys(actionFields)) {
			uses := actionFields[verb]
			var needs, useless []string
			for _, field := range []string{"target", "count", "of", "for", "boot"} {
				if needed, used := uses[field]; needed {
					needs = append(needs, field)
				} else if !used {
					useless = append(useless, field)
				}
			}
			then := not(oneOfThese(useless...))
			if len(needs) > 0 {
				then = allOf(required(needs...), then)
			}
			rules = append(rules, ifThen(is("do", verb), then))
		}
	}
	return rules
}

// valueRules adds restrictions to a field's schema that its kind does not imply.
func valueRules(path string, node schemaNode) {
	switch path {
	case "name":
		node["pattern"] = jobName().String() + `|\$\{`
	case "resources.zones", "resources.any_of":
		node["uniqueItems"] = true
	case "env":
		node["propertyNames"] = schemaNode{"pattern": envName().String()}
		node["additionalProperties"] = schemaNode{"type": []string{"string", "number", "boolean", "null"}, "not": schemaNode{"pattern": `\$\{`}}
	case "sweep.search":
		node["enum"] = []string{SearchRandom, SearchGrid, SearchTPE}
	case "sweep.samples":
		node["minimum"] = 1
	}
}
