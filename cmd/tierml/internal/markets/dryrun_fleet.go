package markets

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tierml/tierml/config"
)

// fleetOptions simulate a job on other machines than those in its file, so that it need not be edited.
type fleetOptions struct {
	types    []string
	zones    []string
	vcpu     int
	machines int
	reliable string
}

func (o *fleetOptions) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.types, "types", nil, "machine `types`; default: the job's")
	f.StringSliceVar(&o.zones, "zones", nil, "`zones`; default: the job's")
	f.IntVar(&o.vcpu, "vcpu", 0, "`number` of transient vCPUs, of any type")
	f.IntVar(&o.machines, "machines", 0, "`number` of transient machines, of any type")
	f.StringVar(&o.reliable, "reliable", "", "reliable machines, as `TYPE` or TYPE:COUNT; default: the job's, or with --types one of the cheapest")
}

// apply changes the job. Whatever does not fit the market is reported when the job is resolved on it.
func (o *fleetOptions) apply(job *config.Job) error {
	if o.vcpu < 0 || o.machines < 0 || o.vcpu > 0 && o.machines > 0 {
		return fmt.Errorf("--vcpu %d and --machines %d: write one of them, above 0", o.vcpu, o.machines)
	}
	switch {
	case o.vcpu > 0:
		job.Resources.Count, job.Resources.VCPU = config.Machines{}, o.vcpu
	case o.machines > 0:
		job.Resources.Count, job.Resources.VCPU = config.Exactly(o.machines), 0
	}
	if len(o.types) > 0 {
		job.Resources.AnyOf, job.Resources.MaxPrice, job.Local.Capacity = nil, 0, nil
		for _, t := range o.types {
			job.Resources.AnyOf = append(job.Resources.AnyOf, config.Machine{Type: t})
		}
		job.Reliable.Type = ""
	}
	if len(o.zones) > 0 {
		if err := job.SetZones(o.zones); err != nil {
			return fmt.Errorf("--zones: %w", err)
		}
	}
	if o.reliable != "" {
		kind, count, counted := strings.Cut(o.reliable, ":")
		job.Reliable.Type = kind
		if counted {
			n, err := strconv.Atoi(count)
			if err != nil || n < 0 || kind == "" {
				return fmt.Errorf("--reliable %q: write a type, or a type and a number, such as c4.2xlarge:4; with 0, none of the machines is reliable", o.reliable)
			}
			job.Reliable.Count = n
		}
	}
	return nil
}

// resized reports whether the fleet may be too large for the job's splits.
func (o *fleetOptions) resized() bool { return o.vcpu > 0 || o.machines > 0 || len(o.types) > 0 }
