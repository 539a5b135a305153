// Package confine limits what processes that were started for others may take of this host. It knows nothing about what they do.
package confine

// Limits are what a process, and those that it starts, may take.
type Limits struct {
	Memory    int64 // bytes
	VCPU      int   // its weight among others
	Processes int   // with threads
}

// Group is what was started together. The zero Group has no limits in common.
type Group struct {
	dir  string
	Flaw error // why memory is not limited; nil: it is
}

// Together reports whether all processes of the group count together.
func (g Group) Together() bool { return g.dir != "" }
