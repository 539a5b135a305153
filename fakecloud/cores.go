package fakecloud

import (
	"cmp"
	"slices"
)

// cores assigns this computer's cores: a machine with fewer vCPUs gets as many cores, so that a program finds the same number as on a real
// machine.
type cores struct {
	all  []int
	uses map[int]int // machines on each
}

// take returns the cores of a machine with this many vCPUs, the least used first; none = all, if it has at least as many.
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

// release returns cores.
func (c *cores) release(taken []int) {
	for _, core := range taken {
		c.uses[core]--
	}
}
