package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
)

// HostsPlan is what shared hosts may buy, and its hourly cost.
type HostsPlan struct {
	Name   string         `json:"name"`
	Policy string         `json:"policy"`
	Pools  []plannedHosts `json:"pools"`
	// PerHour is the cost of all hosts that may be bought, on the most expensive pools at the start's prices; empty: no price is known
	// then.
	PerHour string `json:"most_usd_per_hour,omitempty"`
	// OnDemand is the same with spot hosts at on-demand prices.
	OnDemand string                   `json:"on_demand_usd_per_hour,omitempty"`
	Slots    map[step.Tier]hosts.Size `json:"largest_slots"`
}

// plannedHosts are the hosts of one pool.
type plannedHosts struct {
	Pool    string     `json:"pool"`
	Tier    step.Tier  `json:"tier"`
	Size    hosts.Size `json:"size"`
	Most    int        `json:"most"`
	PerHour string     `json:"usd_per_hour,omitempty"` // of one, at the start
}

// PlanHosts plans shared hosts.
func PlanHosts(p *Job) HostsPlan {
	plan := HostsPlan{Name: p.Job.Name, Policy: p.Job.Policy, Slots: map[step.Tier]hosts.Size{}}
	var now, onDemand market.USD // of the most expensive transient pool
	known := false
	for _, c := range p.Choice.Pools {
		if c.Pool.Class != market.Spot {
			continue
		}
		size := hosts.SizeOf(c.Type)
		most := p.Choice.Want.Machines
		if p.Choice.Want.VCPU > 0 {
			most = p.Choice.Want.VCPU / max(size.VCPU, 1)
		}
		row := plannedHosts{Pool: c.Pool.String(), Tier: step.Transient, Size: size, Most: most}
		if price, ok := c.History.At(p.Job.Local.Start); ok {
			row.PerHour, known, now = price.String(), true, max(now, price*market.USD(most))
		}
		onDemand = max(onDemand, c.Type.OnDemand*market.USD(most))
		least, some := plan.Slots[step.Transient]
		if !some {
			least = size
		}
		plan.Slots[step.Transient] = hosts.Size{VCPU: min(least.VCPU, size.VCPU), MemoryMiB: min(least.MemoryMiB, size.MemoryMiB), GPUs: min(least.GPUs, size.GPUs)}
		plan.Pools = append(plan.Pools, row)
	}
	if r := p.Choice.Reliable; r.Count > 0 {
		size := hosts.SizeOf(r.Type)
		plan.Slots[step.Reliable] = size
		plan.Pools = append(plan.Pools, plannedHosts{Pool: r.Pool.String(), Tier: step.Reliable, Size: size, Most: r.Count, PerHour: r.Type.OnDemand.String()})
		now, onDemand = now+r.Type.OnDemand*market.USD(r.Count), onDemand+r.Type.OnDemand*market.USD(r.Count)
	}
	if known {
		plan.PerHour = now.String()
	}
	plan.OnDemand = onDemand.String()
	return plan
}

// SlotsText describes how large slots can be.
func (p HostsPlan) SlotsText() string {
	var each []string
	for _, tier := range []step.Tier{step.Transient, step.Reliable} {
		if size, some := p.Slots[tier]; some {
			each = append(each, fmt.Sprintf("%s on a %s host", size, tier))
		}
	}
	return strings.Join(each, ", ")
}

// prices finds the market of a job.
type prices func(context.Context, *config.Job) (*local.Market, error)

// SlotMarket is the known market of a job whose machines are slots of shared hosts, where each costs its share of a host. For any
// other endpoint it is the job's own market.
func SlotMarket(endpoint string) prices {
	return func(ctx context.Context, job *config.Job) (*local.Market, error) {
		own, err := LoadMarket(ctx, job)
		if err != nil || len(own.Trace.Markets) == 0 {
			return own, err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var since time.Time
		var pools []market.Pool
		for _, on := range own.Trace.Markets {
			if first, some := on.History.First(); some && (since.IsZero() || first.At.Before(since)) {
				since = first.At
			}
			pools = append(pools, on.Pool)
		}
		region := pools[0].Region
		types := own.Catalog.Types(region)
		stays := func(name string) market.Pool {
			return market.Pool{Provider: pools[0].Provider, Region: region, Zone: pools[0].Zone, Type: name, Class: market.OnDemand}
		}
		for _, t := range types {
			pools = append(pools, stays(t.Name))
		}
		points, err := jobrun.SlotPrices(ctx, job, endpoint, pools, since, job.Local.Start)
		switch {
		case err != nil: // they may be back when the run requests slots
			own.Warnings = append(own.Warnings, fmt.Sprintf("what slots of the shared hosts cost is not known (%v): cost and time are of machines of the job's own", err))
			return own, nil
		case points == nil:
			return own, nil
		}
		for i := range types {
			if shares := points[stays(types[i].Name)]; len(shares) > 0 {
				types[i].OnDemand = shares[len(shares)-1].Price
			}
		}
		maps.DeleteFunc(points, func(p market.Pool, _ []market.PricePoint) bool { return p.Class == market.OnDemand })
		for pool, known := range points { // a share changes as rarely as prices, and holds until now
			points[pool] = append(known, market.PricePoint{At: job.Local.Start, Price: known[len(known)-1].Price})
		}
		slots := *own
		slots.Trace, slots.Catalog = trace.New(trace.Of(points), trace.Summary{}), market.NewCatalog(region, types)
		slots.Sources = append(slots.Sources, "Machines are slots of shared hosts: each costs its share of a host, a reliable one of a host on demand.")
		return &slots, nil
	}
}

// ChecksOfHosts are the checks of shared hosts.
func ChecksOfHosts(job *config.Job) []doctor.Check {
	checks := append(checksOfCloud(job), doctor.Check{Name: "slots", Look: func(ctx context.Context) (string, error) {
		p, err := Hosts(ctx, job, &jobrun.Hosts{})
		if err != nil {
			return "", err
		}
		plan := PlanHosts(p)
		for _, h := range plan.Pools {
			if h.Size.VCPU <= 0 || h.Size.MemoryMiB <= 0 || h.Most == 0 {
				return "", doctor.Wrong("name a type whose vCPUs and memory are in the catalog, and ask for one host at least", "no slot can be cut from %s", h.Pool)
			}
		}
		return "the largest has " + plan.SlotsText(), nil
	}})
	if job.Cloud == config.CloudLocal {
		checks = append(checks, doctor.Check{Name: "isolation", Look: func(context.Context) (string, error) {
			if err := confine.Apart(); err != nil {
				return "slots see each other's processes and files, unless they are of different users: " + err.Error(), nil
			}
			return "slots have PID, mount and IPC namespaces of their own", nil
		}})
	}
	if job.Hosts.Door != "" {
		checks = append(checks, doctor.Check{Name: "other users", Look: func(context.Context) (string, error) {
			if err := OtherUsers(job); err != nil {
				return "", err
			}
			return fmt.Sprintf("users %d to %d find the hosts in %s", job.Hosts.Users.Least, job.Hosts.Users.Most, job.Hosts.Door), nil
		}})
	}
	return checks
}

// OtherUsers checks whether hosts can be opened to other users of this computer.
func OtherUsers(job *config.Job) error {
	if job.Hosts.Door == "" {
		return nil
	}
	if os.Geteuid() != 0 || !sameuser.Supported {
		return errors.New("hosts.users needs root on Linux, which starts processes of other users: leave users and door out")
	}
	info, err := os.Stat(job.Hosts.Door)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return fmt.Errorf("hosts.door: there is no folder %s: make it, for all to read (mkdir -m 755 %[1]s)", job.Hosts.Door)
	case err != nil:
		return fmt.Errorf("hosts.door: %w", err)
	case info.Mode().Perm()&0o005 != 0o005:
		return fmt.Errorf("hosts.door: other users cannot read %s: chmod 755 it", filepath.Clean(job.Hosts.Door))
	}
	return nil
}
