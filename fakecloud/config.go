// Package fakecloud is a cloud on one machine: it speaks EC2's query API and its instance metadata protocol, or those of Google Compute
// Engine, on loopback ports; its instances are local processes, its spot market replays recorded prices faster, and it keeps its own launch
// records and computes its own bill from these.
//
// Cloud is the acting part: servers, processes, files, the clock. What happens is decided by internal/region, which is plain;
// internal/query and internal/imds (EC2), internal/computeapi and internal/gcemeta (Compute Engine) translate to the wire. The package
// knows neither an SDK nor any caller: it and an adapter cannot share a misunderstanding of a cloud.
//
// Differences from the real ones that a caller can notice: one region per Cloud; machines have no disks, so that nothing outlives a stop;
// all machines share the loopback interface. docs/fakecloud.md has more.
package fakecloud

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
)

// InstanceType is a machine type on sale: a catalog entry and its declared compute rate.
type InstanceType = region.Type

// Limits are the account's limits; 0 is none.
type Limits = region.Limits

// Config specifies what the cloud sells and how its instances run. Durations marked "wall" are in wall-clock time, independent of the market's
// speed.
type Config struct {
	// Clock maps wall-clock to market time. Clock.Market is the start that script offsets count from.
	Clock clock.Mapping
	// Provider is EC2 or GCE, and determines the protocols. "" = EC2.
	Provider string
	// Region is the only region, "us-west-1". Pools elsewhere are refused.
	Region string
	// Zones on sale in addition to those of Prices.
	Zones []string
	// Types on sale, on demand in every zone.
	Types []InstanceType
	// Prices are the spot markets.
	Prices map[market.Pool]*market.History
	// Rules compute the bill.
	Rules market.RuleBook
	// Capacity is the maximum number of machines of a pool; a pool not named has no limit.
	Capacity map[market.Pool]int
	// Limits of the account.
	Limits Limits

	// Notice (wall) is between the notice of an eviction and the end. EC2: 2 minutes; GCE: 30 seconds.
	Notice time.Duration
	// Boot (wall) is between a launch and the start of the instance's process.
	Boot time.Duration
	// Grace (wall) is between SIGTERM and SIGKILL of a terminated instance. 0 = DefaultGrace.
	Grace time.Duration
	// Visible (wall) is how long after its launch an instance first appears in listings: EC2 is eventually
	// consistent. 0 = at once.
	Visible time.Duration
	// Tick (wall) is how often the records say that the cloud is alive. 0 = DefaultTick.
	Tick time.Duration

	// Command is the instance's process. Empty = "sleep infinity".
	Command []string
	// Env is added to the instance's environment, which is otherwise PATH, LANG, TMPDIR, an empty HOME of its own
	// and the cloud's own: AWS_EC2_METADATA_SERVICE_ENDPOINT or GCE_METADATA_HOST, TIERML_CLOCK, TIERML_FLOPS.
	Env []string
	// Dir is the working directory of the instances. "" = that of the cloud.
	Dir string
	// LogDir gets each instance's output, in ID.log. "" = it is discarded.
	LogDir string
	// Records is the file of launch records, appended to; the bill is of the whole file. "" = they are kept in
	// memory only.
	Records string
	// Listen is the address of the API, on the loopback interface. "" = a free port of 127.0.0.1. Requests are not authenticated:
	// connections of other users are closed if the system reports their owner (internal/sameuser).
	Listen string

	// Script lists events to inject in addition to the market's.
	Script Script
	// Seed of ids and random choices.
	Seed uint64
	// Log of the cloud itself. nil = none.
	Log *slog.Logger
}

// The supported providers.
const (
	EC2 = region.EC2
	GCE = region.GCE
)

// Defaults.
const (
	DefaultGrace = 10 * time.Second
	DefaultTick  = time.Second
)

func (c Config) withDefaults() Config {
	if c.Provider == "" {
		c.Provider = EC2
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Tick == 0 {
		c.Tick = DefaultTick
	}
	if len(c.Command) == 0 {
		c.Command = []string{"sleep", "infinity"}
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) check() error {
	var errs []error
	if !(c.Clock.Speed > 0) {
		errs = append(errs, fmt.Errorf("clock: speed %v is not above 0", c.Clock.Speed))
	}
	if _, err := KindNamed(c.Provider); err != nil {
		errs = append(errs, err)
	}
	if c.Region == "" {
		errs = append(errs, errors.New("no region"))
	}
	if c.Rules == nil {
		errs = append(errs, errors.New("no billing rules"))
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "localhost" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			errs = append(errs, fmt.Errorf("listen: %s can be reached from other hosts, and requests are not authenticated; "+
				"write 127.0.0.1 or localhost", c.Listen))
		}
	}
	for _, length := range []struct {
		name string
		d    time.Duration
	}{{"notice", c.Notice}, {"boot", c.Boot}, {"grace", c.Grace}, {"visible", c.Visible}, {"tick", c.Tick}} {
		if length.d < 0 {
			errs = append(errs, fmt.Errorf("%s: %v is below 0", length.name, length.d))
		}
	}
	return errors.Join(errs...)
}

// region returns the deciding part. It only uses market time. A later session with the same records must not reuse ids of an earlier one.
func (c Config) region(session uint64) (*region.Region, error) {
	return region.New(region.Config{
		Provider: c.Provider, Name: c.Region, Zones: c.Zones, Types: c.Types, Spot: c.Prices, Capacity: c.Capacity, Limits: c.Limits,
		Notice: c.Clock.ToMarket(c.Notice), Boot: c.Clock.ToMarket(c.Boot), Visible: c.Clock.ToMarket(c.Visible), Seed: c.Seed, Session: session,
	})
}

// Histories returns the price history of every pool on sale: the spot prices, and for on-demand pools their constant price. Bills are
// computed from it.
func (c Config) Histories() map[market.Pool]*market.History {
	all := maps.Clone(c.Prices)
	if all == nil {
		all = make(map[market.Pool]*market.History)
	}
	zones := slices.Clone(c.Zones)
	for pool := range c.Prices {
		zones = append(zones, pool.Zone)
	}
	provider := c.Provider
	if provider == "" {
		provider = EC2
	}
	for _, zone := range zones {
		for _, t := range c.Types {
			pool := market.Pool{Provider: provider, Region: c.Region, Zone: zone, Type: t.Name, Class: market.OnDemand}
			all[pool] = market.Constant(t.OnDemand)
		}
	}
	return all
}
