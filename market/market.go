// Package market describes what is for sale: capacity pools, their prices over time, how long their machines are likely to
// last, and how each provider's rule book bills for them.
//
// It is plain arithmetic over values. It knows nothing about the source of prices (market/trace reads files), purchases
// (provisioner) and why (bidding).
package market

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Class is the terms on which a machine is sold.
type Class string

const (
	// Spot machines can be reclaimed by the provider.
	Spot Class = "spot"
	// OnDemand machines stay until their buyer ends them.
	OnDemand Class = "on-demand"
)

// Pool is one thing that can be bought: machines of one type in one zone on one set of terms. It is
// comparable, and the key for prices, capacity, evictions and costs everywhere.
type Pool struct {
	Provider string // "ec2", "gce"
	Region   string // "us-west-1"
	Zone     string // "us-west-1a"
	Type     string // "c3.xlarge"
	Class    Class
}

// String returns "ec2/us-west-1/us-west-1a/c3.xlarge/spot", which ParsePool reads back.
func (p Pool) String() string {
	return strings.Join([]string{p.Provider, p.Region, p.Zone, p.Type, string(p.Class)}, "/")
}

// TakesBids reports whether machines of the pool are bought at a highest price. Some providers have no bids (as their
// adapters' traits also report): there a job's own limit decides whether to buy, and the provider does not learn it.
func (p Pool) TakesBids() bool { return p.Class == Spot && !withoutBids[p.Provider] }

// ParsePool parses the result of Pool.String.
func ParsePool(s string) (Pool, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 5 {
		return Pool{}, fmt.Errorf("pool %q: want provider/region/zone/type/class", s)
	}
	p := Pool{Provider: parts[0], Region: parts[1], Zone: parts[2], Type: parts[3], Class: Class(parts[4])}
	if p.Class != Spot && p.Class != OnDemand {
		return Pool{}, fmt.Errorf("pool %q: class %q is neither %q nor %q", s, p.Class, Spot, OnDemand)
	}
	return p, nil
}

// Compare orders pools by provider, region, zone, type, class.
func (p Pool) Compare(q Pool) int {
	return cmp.Or(
		strings.Compare(p.Provider, q.Provider),
		strings.Compare(p.Region, q.Region),
		strings.Compare(p.Zone, q.Zone),
		strings.Compare(p.Type, q.Type),
		strings.Compare(string(p.Class), string(q.Class)),
	)
}

// Kinds lists the types of pools and their classes, regardless of zones: "c3.xlarge spot, t2.micro on-demand".
func Kinds(pools []Pool) string {
	var kinds []string
	for _, p := range pools {
		kinds = append(kinds, p.Type+" "+string(p.Class))
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}

// MarshalText makes a Pool a JSON string and a JSON object key.
func (p Pool) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses the result of MarshalText.
func (p *Pool) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePool(string(b))
	return err
}

// InstanceType is a machine type's resources and its on-demand price.
type InstanceType struct {
	Name      string
	Arch      string // "x86_64", "arm64"
	VCPU      int
	MemoryMiB int64
	OnDemand  USD // per hour
	// Rate is the work that one machine does in an hour, in vCPU hours of a common reference; 0 = its number of vCPUs. It makes families
	// and architectures comparable.
	Rate float64
	// Bandwidth is the capacity of the machine's network link in one direction, in bytes per second; 0 = unknown.
	Bandwidth float64
	// GPU describes the machine's GPUs; Count 0 = none known.
	GPU GPU
}

// GPU describes a machine's GPUs, all of one model.
type GPU struct {
	Name      string // of the model: "L40S", "A100"
	Count     int
	MemoryMiB int64 // per GPU
}

// String returns the form used in job files: "A100:8".
func (g GPU) String() string { return fmt.Sprintf("%s:%d", g.Name, g.Count) }

// WorkRate returns the work of one machine per hour, in vCPU hours; 0 if neither a rate nor the vCPUs are known.
func (t InstanceType) WorkRate() float64 {
	if t.Rate > 0 {
		return t.Rate
	}
	return float64(t.VCPU)
}
