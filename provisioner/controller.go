package provisioner

import (
	"slices"
	"strings"
	"time"
)

// Controller is an on-demand machine of a cluster on which `tierml server` runs jobs. It does not carry the cluster's own tag, as a run may
// end any machine that does.
type Controller struct {
	ID       string // the instance's id, or its name if people use that
	Zone     string
	Type     string
	State    string // in the provider's own words, in lower case
	Owner    string
	Launched time.Time
}

// Running reports whether it can be reached now or soon.
func (c Controller) Running() bool {
	return slices.Contains([]string{"pending", "provisioning", "staging", "running"}, c.State)
}

// SortControllers sorts them by id.
func SortControllers(all []Controller) {
	slices.SortFunc(all, func(a, b Controller) int { return strings.Compare(a.ID, b.ID) })
}

// ControllerRequest describes the machine for a job server.
type ControllerRequest struct {
	Token    string // of the call: the same token gives the same machine
	Zone     string
	Type     string
	Role     string   // the role in which it acts
	Network  []string // security groups, or network tags
	DiskGiB  int64
	UserData string // its first script
}
