package query

import (
	"slices"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// filter requires one of the values, in which * and ? are wildcards.
type filter struct {
	name   string
	values []string
}

// filters reads Filter.n.Name and Filter.n.Value.m.
func (c *call) filters() []filter {
	var list []filter
	for _, n := range c.indices("Filter") {
		f := filter{name: c.required(item("Filter", n) + ".Name"), values: c.list(item("Filter", n) + ".Value")}
		if len(f.values) == 0 {
			c.fail(region.Errorf("InvalidParameterValue", "The filter '%s' has no value.", f.name))
		}
		list = append(list, f)
	}
	return list
}

// selectBy keeps what passes all filters. fields returns the values of a thing by filter name; an unknown name is refused. Tags are common
// to all things.
func selectBy[T any](list []T, filters []filter, tags func(T) map[string]string, fields map[string]func(T) []string) ([]T, error) {
	for _, f := range filters {
		if fields[f.name] == nil && (tags == nil || f.name != "tag-key" && f.name != "tag-value" && !strings.HasPrefix(f.name, "tag:")) {
			return nil, region.Errorf("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(thing T) bool {
		return slices.ContainsFunc(filters, func(f filter) bool {
			if field := fields[f.name]; field != nil {
				return !f.accepts(field(thing)...)
			}
			return !f.acceptsTags(tags(thing))
		})
	}), nil
}

func (f filter) acceptsTags(tags map[string]string) bool {
	if key, ok := strings.CutPrefix(f.name, "tag:"); ok {
		value, has := tags[key]
		return has && f.accepts(value)
	}
	for key, value := range tags {
		if f.name == "tag-key" && f.accepts(key) || f.name == "tag-value" && f.accepts(value) {
			return true
		}
	}
	return false
}

func (f filter) accepts(have ...string) bool {
	return slices.ContainsFunc(have, func(h string) bool {
		return slices.ContainsFunc(f.values, func(pattern string) bool { return matches(pattern, h) })
	})
}

// matches compares with a pattern in which * stands for any text and ? for one character.
func matches(pattern, text string) bool {
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '*':
			for n := range len(text) + 1 {
				if matches(pattern[i+1:], text[n:]) {
					return true
				}
			}
			return false
		case text == "" || pattern[i] != '?' && pattern[i] != text[0]:
			return false
		}
		text = text[1:]
	}
	return text == ""
}

// one makes a field of a single value.
func one[T any](get func(T) string) func(T) []string {
	return func(thing T) []string { return []string{get(thing)} }
}
