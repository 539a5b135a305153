package computeapi

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

// defaultPage is the default and the maximum of maxResults.
const defaultPage = 500

// list filters items and splits them into pages. A page token is the number of items before the page.
func list[T any](c *call, all []T) (page []T, next string, err error) {
	q := c.URL.Query()
	keep, err := parseFilter[T](q.Get("filter"))
	if err != nil {
		return nil, "", err
	}
	size, from := defaultPage, 0
	if text := q.Get("maxResults"); text != "" {
		if size, err = strconv.Atoi(text); err != nil || size < 1 || size > defaultPage {
			return nil, "", invalid("maxResults", text, "Must be from 1 to 500.")
		}
	}
	if text := q.Get("pageToken"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, "", invalid("pageToken", text, "It is of no earlier page.")
		}
	}
	var kept []T
	for _, one := range all {
		if keep(one) {
			kept = append(kept, one)
		}
	}
	kept = kept[min(from, len(kept)):]
	if len(kept) > size {
		return kept[:size], strconv.Itoa(from + size), nil
	}
	return kept, "", nil
}

// listOf answers with a page of things of a kind.
func listOf[T any](c *call, kind string, all []T) (any, error) {
	page, next, err := list(c, all)
	return struct {
		Kind  string `json:"kind"`
		Items []T    `json:"items,omitempty"`
		Next  string `json:"nextPageToken,omitempty"`
	}{"compute#" + kind + "List", page, next}, err
}

// aggregate groups a page's items by zone. Zones without items have a warning that says so.
func aggregate[T any](c *call, kind string, page []T, next string, zoneOf func(T) string) any {
	items := map[string]map[string]any{}
	for _, zone := range c.region.Zones() {
		var here []T
		for _, one := range page {
			if zoneOf(one) == c.zoneLink(zone) {
				here = append(here, one)
			}
		}
		scope := map[string]any{kind + "s": here}
		if len(here) == 0 {
			scope = map[string]any{"warning": map[string]string{"code": "NO_RESULTS_ON_PAGE",
				"message": "There are no results for scope 'zones/" + zone + "' on this page."}}
		}
		items["zones/"+zone] = scope
	}
	return struct {
		Kind  string                    `json:"kind"`
		ID    string                    `json:"id"`
		Items map[string]map[string]any `json:"items"`
		Next  string                    `json:"nextPageToken,omitempty"`
	}{"compute#" + kind + "AggregatedList", "projects/" + c.project() + "/aggregated/" + kind + "s", items, next}
}

// condition is one comparison: FIELD = "VALUE", with != for the opposite, : for a substring or * for any value, eq and ne for a regular
// expression of the whole value.
var condition = pattern.Of(`^\(?\s*([A-Za-z.]+[A-Za-z0-9_.-]*)\s*(=|!=|:|\beq\b|\bne\b)\s*("([^"]*)"|'([^']*)'|[^\s"'()]+)\s*\)?$`)

// parseFilter parses the supported filters: conditions joined by AND, or in adjacent parentheses. Unknown fields are errors: they would
// silently match nothing, or with != everything.
func parseFilter[T any](text string) (func(T) bool, error) {
	if text == "" {
		return func(T) bool { return true }, nil
	}
	var conditions []func(T) bool
	for _, part := range strings.Split(strings.ReplaceAll(text, ") (", ") AND ("), " AND ") {
		words := condition().FindStringSubmatch(strings.TrimSpace(part))
		if words == nil {
			return nil, refusalf(http.StatusBadRequest, "invalid", "Invalid list filter expression: %q", text)
		}
		field, operator, value := words[1], words[2], words[3]
		if strings.ContainsAny(value[:1], `"'`) {
			value = value[1 : len(value)-1]
		}
		equal := func(s string) bool { return s == value }
		if operator == ":" {
			equal = func(s string) bool { return s != "" && (value == "*" || strings.Contains(s, value)) }
		}
		if operator == "eq" || operator == "ne" {
			whole, err := regexp.Compile("^(?:" + value + ")$")
			if err != nil {
				return nil, refusalf(http.StatusBadRequest, "invalid", "Invalid list filter expression: %v", err)
			}
			equal = whole.MatchString
		}
		if _, known := fieldOf(reflect.ValueOf(new(T)).Elem(), field); !known {
			return nil, refusalf(http.StatusBadRequest, "invalid", "Invalid list filter expression: no field %q is spoken here", field)
		}
		wanted := operator != "!=" && operator != "ne"
		conditions = append(conditions, func(one T) bool {
			has, _ := fieldOf(reflect.ValueOf(one), field)
			return equal(has) == wanted
		})
	}
	return func(i T) bool {
		for _, holds := range conditions {
			if !holds(i) {
				return false
			}
		}
		return true
	}, nil
}

// fieldOf returns a field by its path in JSON, such as "scheduling.preemptible" or "labels.owner", as text, and whether the field exists.
// An unset field is "".
func fieldOf(v reflect.Value, path string) (text string, known bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			_, known = fieldOf(reflect.New(v.Type().Elem()).Elem(), path)
			return "", known
		}
		v = v.Elem()
	}
	switch {
	case path == "":
		switch v.Kind() {
		case reflect.Struct, reflect.Slice, reflect.Map:
			return "", false
		}
		return fmt.Sprint(v.Interface()), true
	case v.Kind() == reflect.Map: // labels: keys have no dots
		if value := v.MapIndex(reflect.ValueOf(path)); value.IsValid() {
			return fmt.Sprint(value.Interface()), true
		}
		return "", true
	case v.Kind() != reflect.Struct:
		return "", false
	}
	name, rest, _ := strings.Cut(path, ".")
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if text, known := fieldOf(v.Field(i), path); known {
				return text, true
			}
		} else if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return fieldOf(v.Field(i), rest)
		}
	}
	return "", false
}

func plural(n int, what string) string { return fmt.Sprintf("%d %ss", n, what) }
