package fakecloud

import (
	"cmp"
	"slices"
)

// cores hands out this computer's: a machine of fewer vCPUs gets as many, so that a program finds on it what it finds on a type of that size.
type cores struct {
	all  []int
	uses map[int]int // machines on each
}

// take returns the cores of a machine of that many vCPUs, those with the fewest machines first; none = all, as it has at least as many.
func (c *cores) take(vcpus int) []int {
	if vcpus < 1 || vcpus >= len(c.all) {
		return nil
	}
	if c.uses == nil {
		c.uses = map[int]int{}
	}
	order := slices.Clone(c.all)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.uses[a], c.uses[b]) })
	for _, core := range order[:vcpus] {
		c.uses[core]++
	}
	return order[:vcpus]
}

// give takes them back.
func (c *cores) give(taken []int) {
	for _, core := range taken {
		c.uses[core]--
	}
}
