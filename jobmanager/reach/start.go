package reach

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// Request describes the job server's machine for a job's cluster; script is its boot script. The same request has the same token, so that
// repeating it after a lost answer returns the same machine: another laptop, or another token of its user, makes another request.
func Request(job *config.Job, script string) (provisioner.ControllerRequest, error) {
	at := job.Installation()
	k := at.Controller
	r := provisioner.ControllerRequest{Type: k.Type, Role: k.Role, Network: k.Network, DiskGiB: (k.Disk.MiB + 1023) >> 10, UserData: script}
	provider, err := providers.Of(job)
	if err != nil {
		return r, err
	}
	network, zones := provider.Place(job)
	if len(r.Network) == 0 {
		r.Network = network
	}
	zones = append(slices.Clone(job.Resources.Zones), zones...)
	switch {
	case k.Zone != "":
		r.Zone = k.Zone
	case len(zones) > 0:
		r.Zone = zones[0]
	case provider.Facts().Reach.NeedsZone:
		return r, job.Fault(at.Block+".controller.zone", "is missing: a job server is started in a zone",
			"below "+at.Block+".controller:, add "+provider.Facts().Examples["controller.zone"])
	}
	if r.Role == "" {
		return r, job.Fault(at.Block+".controller.role", "is missing: a job server buys machines, and people reach it, by what its role may do",
			"write the one that terraform prints (output settings), or one with its rights")
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n%s\n%s\n%d\n%s", at.Cluster, r.Zone, r.Type, r.Role, strings.Join(r.Network, ","), r.DiskGiB, r.UserData)
	r.Token = "tierml-controller-" + hex.EncodeToString(sum.Sum(nil)[:16])
	return r, nil
}

// Goes returns the unfinished jobs, which a user must stop before their job server can go.
func Goes(jobs []call.Job) (names []string) {
	for _, j := range jobs {
		if j.Submitted != nil && !call.State(j.State).Over() || j.Submitted == nil && j.Active() {
			names = append(names, j.Run)
		}
	}
	return names
}
