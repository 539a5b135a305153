package query

import (
	"encoding"
	"encoding/xml"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// key is a parameter of a Describe action that names things, such as VpcId.1.
type key struct {
	param  string
	filter string // the filter with the same values
	code   string // of the error if there is no such thing
	what   string // "vpc ID '%s'"
	// Optional.
	prefix string                           // prefix of ids; others are malformed
	exists func(c *call, value string) bool // including things that the list omits
}

// describe makes a Describe action: a list whose elements are filtered by the fields with a tag `filter:"name,..."`, and by their tagSet;
// below a field with `prefix:"egress."` the names of filters begin with it.
func describe[T any](set string, list func(c *call) []T, keys ...key) action {
	filterable := reflect.TypeFor[T]()
	names := make(map[string]func(T) []string)
	for _, name := range filterNames(filterable, "") {
		names[name] = func(thing T) []string {
			var values []string
			filterValues(reflect.ValueOf(thing), "", name, &values)
			return values
		}
	}
	var tagsOf func(T) map[string]string
	if field, ok := filterable.FieldByName("Tags"); ok && field.Type == reflect.TypeFor[*tagList]() {
		tagsOf = func(thing T) map[string]string {
			tags := make(map[string]string)
			if s, _ := reflect.ValueOf(thing).FieldByIndex(field.Index).Interface().(*tagList); s != nil {
				for _, t := range s.Items {
					tags[t.Key] = t.Value
				}
			}
			return tags
		}
	}
	return func(c *call) (answer, error) {
		wanted := make([][]string, len(keys))
		for n, k := range keys {
			wanted[n] = c.list(k.param)
		}
		filters, page := c.filters(), c.page(5, 1000)
		all := list(c)
		if err := c.ready(); err != nil {
			return nil, err
		}
		for n, k := range keys {
			for _, w := range wanted[n] {
				if !strings.HasPrefix(w, k.prefix) {
					return nil, region.Errorf(strings.Replace(k.code, "NotFound", "Malformed", 1), "Invalid id: \"%s\" (expecting \"%s...\")", w, k.prefix)
				}
				listed := slices.ContainsFunc(all, func(t T) bool { return slices.Contains(names[k.filter](t), w) })
				if !listed && (k.exists == nil || !k.exists(c, w)) {
					return nil, region.Errorf(k.code, "The "+k.what+" does not exist", w)
				}
			}
			if len(wanted[n]) > 0 {
				all = slices.DeleteFunc(all, func(t T) bool {
					return !slices.ContainsFunc(names[k.filter](t), func(v string) bool { return slices.Contains(wanted[n], v) })
				})
			}
		}
		all, err := selectBy(all, filters, tagsOf, names)
		if err != nil {
			return nil, err
		}
		v := &listing[T]{}
		v.Set.XMLName.Local = set
		v.Set.Items, v.NextToken = cut(all, page)
		return v, nil
	}
}

type tagList = set[tag]

// listing is the answer of a Describe action. The name of the list is the action's.
type listing[T any] struct {
	header
	Set struct {
		XMLName xml.Name
		Items   []T `xml:"item"`
	}
	NextToken string `xml:"nextToken,omitempty"`
}

// filterNames returns the filters of a type and of its fields.
func filterNames(t reflect.Type, prefix string) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		if t.Elem() == reflect.TypeFor[node]() {
			return nil // nodes contain nodes
		}
		return filterNames(t.Elem(), prefix)
	case reflect.Struct:
		for n := range t.NumField() {
			f := t.Field(n)
			if tag := f.Tag.Get("filter"); tag != "" {
				for name := range strings.SplitSeq(tag, ",") {
					names = append(names, prefix+name)
				}
			} else if f.IsExported() {
				names = append(names, filterNames(f.Type, prefix+f.Tag.Get("prefix"))...)
			}
		}
	}
	return names
}

// filterValues collects the values of one filter.
func filterValues(v reflect.Value, prefix, name string, into *[]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			filterValues(v.Elem(), prefix, name, into)
		}
	case reflect.Slice:
		for n := range v.Len() {
			filterValues(v.Index(n), prefix, name, into)
		}
	case reflect.Struct:
		for n := range v.NumField() {
			f := v.Type().Field(n)
			tag := f.Tag.Get("filter")
			switch {
			case tag == "" && f.IsExported():
				filterValues(v.Field(n), prefix+f.Tag.Get("prefix"), name, into)
			case tag != "" && slices.ContainsFunc(strings.Split(tag, ","), func(t string) bool { return prefix+t == name }):
				*into = append(*into, plainValues(v.Field(n))...)
			}
		}
	}
}

// plainValues returns a field as a filter's value; an absent one has none.
func plainValues(v reflect.Value) []string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if s, ok := v.Interface().(set[string]); ok {
		return s.Items
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText() // a stamp's does not fail
		return []string{string(text)}
	}
	return []string{fmt.Sprint(v.Interface())}
}

// of returns the list of a kind of resource.
func of[T any](kind region.Kind, shape func(c *call, s region.Resource) T) func(c *call) []T {
	return func(c *call) []T {
		var list []T
		for _, s := range c.region.Resources(kind) {
			list = append(list, shape(c, s))
		}
		return list
	}
}
