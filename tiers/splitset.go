package tiers

import (
	"slices"

	"github.com/tierml/tierml/ps"
)

// SplitSet is a set of splits, in ascending order. Most machines have the data of only a few of very many.
type SplitSet []ps.Split

// Has reports whether a split is in the set.
func (s SplitSet) Has(split ps.Split) bool {
	_, found := slices.BinarySearch(s, split)
	return found
}

// With returns the set with more splits; it does not change s.
func (s SplitSet) With(more []ps.Split) SplitSet {
	all := slices.Concat(s, more)
	slices.Sort(all)
	return slices.Compact(all)
}
