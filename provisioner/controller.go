package provisioner

import (
	"slices"
	"strings"
	"time"
)

// Controller is an on-demand machine of a cluster on which `tierml server` keeps jobs. It does not carry the cluster's
// own tag: whatever does may be ended by a run.
type Controller struct {
	ID       string // the instance's id, or its name where people call it by that
	Zone     string
	Type     string
	State    string // in the provider's own words, in small letters
	Owner    string
	Launched time.Time
}

// Running reports whether it can be reached, or soon.
func (c Controller) Running() bool {
	return slices.Contains([]string{"pending", "provisioning", "staging", "running"}, c.State)
}

// SortControllers puts them in the order of their ids.
func SortControllers(all []Controller) {
	slices.SortFunc(all, func(a, b Controller) int { return strings.Compare(a.ID, b.ID) })
}

// ControllerRequest is what a job server is made of.
type ControllerRequest struct {
	Token    string // of the call: the same one gives the same machine
	Zone     string
	Type     string
	Role     string   // whom it acts as
	Network  []string // security groups, or network tags
	DiskGiB  int64
	UserData string // its first script
}
