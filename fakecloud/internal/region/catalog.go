package region

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// Type is a machine type on sale.
type Type struct {
	market.InstanceType
	FLOPS float64 // declared compute rate in floating-point operations per second; 0 = not declared
}

// Limits are the account's. 0 is no limit.
type Limits struct {
	SpotInstances     int // maximum number of spot instances: MaxSpotInstanceCountExceeded
	OnDemandInstances int // maximum number of on-demand instances: InstanceLimitExceeded
}

// Config specifies what a region sells. All pools belong to one provider and the region Name.
type Config struct {
	Provider string                          // EC2 or GCE; "" = EC2
	Name     string                          // "us-west-1"
	Zones    []string                        // "us-west-1a", ...; those of Spot are added
	Types    []Type                          // sold on demand in every zone
	Spot     map[market.Pool]*market.History // spot prices; a pool without one is not sold as spot
	Capacity map[market.Pool]int             // maximum number of machines; a pool not named has no limit
	Limits   Limits
	Notice   time.Duration // between the notice and the end of an evicted machine
	Boot     time.Duration // between a launch and the start of the machine's process
	// Visible is how long after its launch a machine appears in Instances: EC2 is only eventually consistent.
	Visible time.Duration
	Seed    uint64 // for ids and random choices
	Session uint64 // number of earlier regions with this seed
}

// The providers.
const (
	EC2 = "ec2"
	GCE = "gce"
)

// Catalog is what a region sells and where; it never changes.
type Catalog struct {
	config Config
	zones  []string
	types  map[string]Type
}

// newCatalog checks the types on sale.
func newCatalog(c Config) (*Catalog, error) {
	if c.Provider == "" {
		c.Provider = EC2
	}
	sold := &Catalog{config: c, zones: slices.Clone(c.Zones), types: make(map[string]Type)}
	for _, t := range c.Types {
		if _, ok := sold.types[t.Name]; ok {
			return nil, fmt.Errorf("region %s: type %s is given twice", c.Name, t.Name)
		}
		sold.types[t.Name] = t
	}
	for pool := range c.Spot {
		if err := sold.checkPool(pool, market.Spot); err != nil {
			return nil, fmt.Errorf("region %s: spot prices of %s: %w", c.Name, pool, err)
		}
		sold.zones = append(sold.zones, pool.Zone)
	}
	for pool := range c.Capacity {
		if err := sold.checkPool(pool, pool.Class); err != nil {
			return nil, fmt.Errorf("region %s: capacity of %s: %w", c.Name, pool, err)
		}
	}
	slices.Sort(sold.zones)
	sold.zones = slices.Compact(sold.zones)
	if len(sold.zones) == 0 {
		return nil, fmt.Errorf("region %s: no zone; name one, or give spot prices of one", c.Name)
	}
	return sold, nil
}

func (c *Catalog) checkPool(pool market.Pool, class market.Class) error {
	switch _, known := c.types[pool.Type]; {
	case pool.Provider != c.config.Provider || pool.Region != c.config.Name:
		return fmt.Errorf("not of %s/%s", c.config.Provider, c.config.Name)
	case pool.Class != class:
		return fmt.Errorf("class must be %s", class)
	case pool.Zone == "":
		return fmt.Errorf("no zone")
	case !known:
		return fmt.Errorf("type %s is not in the catalog", pool.Type)
	}
	return nil
}

// Name returns the region's, "us-west-1".
func (c *Catalog) Name() string { return c.config.Name }

// Limits returns the account's.
func (c *Catalog) Limits() Limits { return c.config.Limits }

// Zones are sorted.
func (c *Catalog) Zones() []string { return c.zones }

// Types are sorted by name.
func (c *Catalog) Types() []Type {
	types := slices.Clone(c.config.Types)
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return types
}

// SoldAsSpot reports whether any zone has a spot market of the type.
func (c *Catalog) SoldAsSpot(name string) bool {
	return slices.ContainsFunc(c.zones, func(zone string) bool { return c.config.Spot[c.pool(zone, name, market.Spot)] != nil })
}

// TypeOf returns the machine type of an instance.
func (c *Catalog) TypeOf(i Instance) Type { return c.types[i.Pool.Type] }

func (c *Catalog) pool(zone, typeName string, class market.Class) market.Pool {
	return market.Pool{Provider: c.config.Provider, Region: c.config.Name, Zone: zone, Type: typeName, Class: class}
}

// Known reports whether the region could have such a pool.
func (c *Catalog) Known(w Scope) bool {
	for _, zone := range c.zones {
		for name := range c.types {
			for _, class := range []market.Class{market.Spot, market.OnDemand} {
				if w.Matches(c.pool(zone, name, class)) {
					return true
				}
			}
		}
	}
	return false
}

func (c *Catalog) spotPools() []market.Pool {
	pools := make([]market.Pool, 0, len(c.config.Spot))
	for pool := range c.config.Spot {
		pools = append(pools, pool)
	}
	slices.SortFunc(pools, market.Pool.Compare)
	return pools
}
