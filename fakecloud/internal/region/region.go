// Package region is the deciding part of the fake cloud: one region of EC2 or Compute Engine as a state machine over
// instances, spot requests, launch templates and a recorded spot market. Its words are EC2's; what differs on Compute
// Engine is said where it does.
//
// It is plain: every method takes the market time `now`, nothing waits, and what the world has to do follows
// as Effects that the caller carries out. It refuses to know HTTP, XML, processes, files and wall-clock time;
// the lengths that it is given are market lengths.
package region

import (
	"fmt"
	"math/rand/v2"
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
	SpotInstances     int // most spot instances at a time: MaxSpotInstanceCountExceeded
	OnDemandInstances int // most on-demand instances at a time: InstanceLimitExceeded
}

// Config says what a region sells. All pools are of one provider and of the region Name.
type Config struct {
	Provider string                          // EC2 or GCE; "" = EC2
	Name     string                          // "us-west-1"
	Zones    []string                        // "us-west-1a", ...; those of Spot count too
	Types    []Type                          // sold on demand in every zone
	Spot     map[market.Pool]*market.History // spot prices; a pool without one is not sold as spot
	Capacity map[market.Pool]int             // most machines at a time; a pool not named has no limit
	Limits   Limits
	Notice   time.Duration // between the notice and the end of an evicted machine
	Boot     time.Duration // between a launch and the start of the machine's process
	// Visible is how long after its launch a machine appears in Instances: EC2 is only eventually consistent.
	Visible time.Duration
	Seed    uint64 // of the ids and of the random choices
	Session uint64 // counts the regions that gave ids with this seed before
}

// The providers.
const (
	EC2 = "ec2"
	GCE = "gce"
)

// Region is the state machine. It is not safe for concurrent use.
type Region struct {
	config Config
	zones  []string
	types  map[string]Type
	ids    *rand.Rand // of the ids
	picks  *rand.Rand // of the random choices

	now       time.Time
	instances map[string]*Instance
	order     []*Instance // in order of launch
	tokens    map[string]tokenUse
	templates []Template
	outages   []outage
	slow      []slowdown
	throttled time.Time // no request is answered before
	effects   []Effect
}

// tokenUse is what a client token stood for.
type tokenUse struct {
	fingerprint string
	reservation string
	instances   []string
	fleet       FleetResult
}

// New makes a region where nothing runs.
func New(c Config) (*Region, error) {
	if c.Provider == "" {
		c.Provider = EC2
	}
	r := &Region{
		config:    c,
		zones:     slices.Clone(c.Zones),
		types:     make(map[string]Type),
		ids:       rand.New(rand.NewPCG(c.Seed, 2*c.Session)),
		picks:     rand.New(rand.NewPCG(c.Seed, 2*c.Session+1)),
		instances: make(map[string]*Instance),
		tokens:    make(map[string]tokenUse),
	}
	for _, t := range c.Types {
		if _, ok := r.types[t.Name]; ok {
			return nil, fmt.Errorf("region %s: type %s is given twice", c.Name, t.Name)
		}
		r.types[t.Name] = t
	}
	for pool := range c.Spot {
		if err := r.checkPool(pool, market.Spot); err != nil {
			return nil, fmt.Errorf("region %s: spot prices of %s: %w", c.Name, pool, err)
		}
		r.zones = append(r.zones, pool.Zone)
	}
	for pool := range c.Capacity {
		if err := r.checkPool(pool, pool.Class); err != nil {
			return nil, fmt.Errorf("region %s: capacity of %s: %w", c.Name, pool, err)
		}
	}
	slices.Sort(r.zones)
	r.zones = slices.Compact(r.zones)
	if len(r.zones) == 0 {
		return nil, fmt.Errorf("region %s: no zone; name one, or give spot prices of one", c.Name)
	}
	return r, nil
}

func (r *Region) checkPool(pool market.Pool, class market.Class) error {
	switch _, known := r.types[pool.Type]; {
	case pool.Provider != r.config.Provider || pool.Region != r.config.Name:
		return fmt.Errorf("not of %s/%s", r.config.Provider, r.config.Name)
	case pool.Class != class:
		return fmt.Errorf("class must be %s", class)
	case pool.Zone == "":
		return fmt.Errorf("no zone")
	case !known:
		return fmt.Errorf("type %s is not in the catalog", pool.Type)
	}
	return nil
}

// Name is the region's, "us-west-1".
func (r *Region) Name() string { return r.config.Name }

// Provider is EC2 or GCE.
func (r *Region) Provider() string { return r.config.Provider }

// Zones are sorted.
func (r *Region) Zones() []string { return r.zones }

// Types are sorted by name.
func (r *Region) Types() []Type {
	types := slices.Clone(r.config.Types)
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return types
}

// SoldAsSpot reports whether any zone has a spot market of the type.
func (r *Region) SoldAsSpot(name string) bool {
	return slices.ContainsFunc(r.zones, func(zone string) bool { return r.config.Spot[r.pool(zone, name, market.Spot)] != nil })
}

// TypeOf returns the machine type of an instance.
func (r *Region) TypeOf(i Instance) Type { return r.types[i.Pool.Type] }

func (r *Region) pool(zone, typeName string, class market.Class) market.Pool {
	return market.Pool{Provider: r.config.Provider, Region: r.config.Name, Zone: zone, Type: typeName, Class: class}
}

// newID makes ids in the form of EC2's: a prefix and 17 hexadecimal digits.
func (r *Region) newID(prefix string) string {
	return fmt.Sprintf("%s-%016x%x", prefix, r.ids.Uint64(), r.ids.Uint64()>>60)
}

// newRequestID makes the shorter ids of spot requests.
func (r *Region) newRequestID() string {
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	id := []byte("sir-00000000")
	for i := len("sir-"); i < len(id); i++ {
		id[i] = digits[r.ids.IntN(len(digits))]
	}
	return string(id)
}

// Effects hands over what the world has to do since the last call, in order.
func (r *Region) Effects() []Effect {
	effects := r.effects
	r.effects = nil
	return effects
}

func (r *Region) emit(e Effect) { r.effects = append(r.effects, e) }

// Effect is something that the caller has to do: one of the structs below.
type Effect interface{ effect() }

type (
	// Launched: the machine is sold; write it down.
	Launched struct{ Instance Instance }
	// Boot: start the machine's process.
	Boot struct{ Instance Instance }
	// Ended: the machine is off the bill; write it down.
	Ended struct{ Instance Instance }
	// Halt: end the machine's process, at once when Force, and tell Gone when it is.
	Halt struct {
		ID    string
		Force bool
	}
)

func (Launched) effect() {}
func (Boot) effect()     {}
func (Ended) effect()    {}
func (Halt) effect()     {}

// Error is a refusal with EC2's code.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an Error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
