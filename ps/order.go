package ps

import (
	"cmp"
	"slices"
)

// sorted returns a map's keys in order: messages must not depend on map order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
