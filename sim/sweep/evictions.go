package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
	"github.com/tierml/tierml/sim"
)

// Evictions is how often machines are reclaimed if there are no bids and prices do not show it. The zero value uses
// what is known of each pool.
type Evictions struct {
	None  bool
	Month float64 // the share of a pool's machines evicted in a month; 0 = the pool's known rate
	// Recordings of availability from other times and places replace the pools' own: the seed determines which pool
	// gets which, and its offset.
	Recordings []*market.Availability
}

// ParseEvictions reads "auto", "none", a share of machines in a month, such as "10%", or the names of recordings of availability.
func ParseEvictions(words []string) (e Evictions, err error) {
	if len(words) == 1 {
		switch percent, share := strings.CutSuffix(words[0], "%"); {
		case words[0] == "auto":
			return e, nil
		case words[0] == "none":
			return Evictions{None: true}, nil
		case share:
			x, err := strconv.ParseFloat(percent, 64)
			if err != nil || !(x >= 0) || x >= 100 {
				return e, fmt.Errorf("evictions %q: write a share of machines in a month from 0%% to below 100%%", words[0])
			}
			return Evictions{None: x == 0, Month: x / 100}, nil
		}
	}
	for _, file := range words {
		r, err := ReadRecording(file, "any/any", SpotShare) // for any pool
		if err != nil {
			return e, fmt.Errorf("evictions %q: %w; write auto, none, a share of machines in a month such as 10%%, or recordings of availability", file, err)
		}
		e.Recordings = append(e.Recordings, r.Availability)
	}
	return e, nil
}

// Apply sets the evictions in a job's simulation. Pools with recorded availability have the recording's evictions. A
// rate given for all machines is passed to policies like the Spot Instance Advisor's.
func (e Evictions) Apply(cfg *sim.Config) error {
	cfg.Hazard = nil
	if e.None || cfg.Rules.Terms().MaxBid > 0 { // prices decide evictions
		return nil
	}
	if err := e.lay(cfg); err != nil {
		return err
	}
	h := &hazard.Hazard{Seed: cfg.Seed}
	all, pools := 0, map[string]int{} // by source
	cfg.Pools = slices.Clone(cfg.Pools)
	for i := range cfg.Pools {
		c := &cfg.Pools[i]
		if c.OnDemand() {
			continue
		}
		all++
		if e.Month > 0 {
			c.Hints.Interruptions = bidding.Hint{Value: e.Month, At: cmp.Or(cfg.Start, time.Unix(0, 0))}
		}
		says := "by recordings of availability"
		if c.Availability == nil {
			p := hazard.Pool{Pool: c.Pool, Places: 2 * placesOf(cfg, c)} // a fleet and its replacement
			p.Life, says = e.life(cfg, c)
			h.Pools = append(h.Pools, p)
		}
		if pools[says]++; pools[says] == 1 {
			h.Says = append(h.Says, says)
		}
	}
	if len(h.Says) > 1 {
		for i, says := range h.Says {
			h.Says[i] = fmt.Sprintf("%s (%d of %d pools)", says, pools[says], all)
		}
	}
	cfg.Hazard = h
	return nil
}

// lay assigns each spot pool one of the recordings, from the first price to the last. Each is used once before any is
// used again.
func (e Evictions) lay(cfg *sim.Config) (err error) {
	if len(e.Recordings) == 0 {
		return nil
	}
	var begin, end time.Time
	for _, c := range cfg.Pools {
		if first, ok := c.History.First(); ok && !c.OnDemand() && (begin.IsZero() || first.At.Before(begin)) {
			begin = first.At
		}
		if last, ok := c.History.Last(); ok && !c.OnDemand() && last.At.After(end) {
			end = last.At
		}
	}
	random := rand.New(rand.NewPCG(cfg.Seed, 4))
	cfg.Pools = slices.Clone(cfg.Pools)
	var left []int
	for i := range cfg.Pools {
		c := &cfg.Pools[i]
		if c.OnDemand() {
			continue
		}
		if len(left) == 0 {
			left = random.Perm(len(e.Recordings))
		}
		if c.Availability, err = LaidOver(e.Recordings[left[0]], placesOf(cfg, c), begin, end.Add(time.Second), random.Float64()); err != nil {
			return err
		}
		left = left[1:]
	}
	return nil
}

// life returns how long a pool's machines live, and the source.
func (e Evictions) life(cfg *sim.Config, c *bidding.Candidate) (life hazard.Life, says string) {
	if e.Month > 0 {
		return hazard.Constant(hazard.OfMonth(e.Month)), fmt.Sprintf("%.4g %% of machines a month, as asked for", 100*e.Month)
	}
	prior := bidding.EvictionPrior(c, cfg.Rules.Terms())
	return prior.Life, prior.Source()
}

// placesOf returns how many of a pool's machines satisfy the job.
func placesOf(cfg *sim.Config, c *bidding.Candidate) int {
	if cfg.Want.VCPU > 0 {
		return (cfg.Want.VCPU + c.Type.VCPU - 1) / max(c.Type.VCPU, 1)
	}
	return cmp.Or(cfg.Want.Machines, 1)
}

// EvictionSource describes in a sentence why and how often a simulation's machines are reclaimed; empty if prices alone
// decide.
func EvictionSource(cfg *sim.Config) string {
	switch {
	case cfg.Hazard != nil && len(cfg.Hazard.Says) > 0:
		return "Evictions for capacity: " + strings.Join(cfg.Hazard.Says, "; ") + "."
	case cfg.Rules.Terms().MaxBid == 0:
		return "Evictions for capacity: none. Prices do not tell of them."
	}
	return ""
}

// LaidOver repeats a recording from begin to end, starting at an offset in it. Its maximum stands for a whole fleet,
// and lower values for proportionally less.
func LaidOver(a *market.Availability, machines int, begin, end time.Time, part float64) (*market.Availability, error) {
	first, known := a.First()
	length, most := a.End().Sub(first.At), a.Most()
	if !known || a.End().IsZero() || most < 1 {
		return nil, errors.New("a recording has no end, or never a machine")
	}
	recorded := append([]market.AvailabilityPoint{first}, a.Points(first.At, a.End())...)
	var points []market.AvailabilityPoint
	for base := begin.Add(-time.Duration(part * float64(length))); base.Before(end); base = base.Add(length) {
		for _, p := range recorded {
			p = market.AvailabilityPoint{At: base.Add(p.At.Sub(first.At)).Truncate(time.Second), Count: p.Count * machines / most}
			switch {
			case !p.At.After(begin):
				points = append(points[:0], market.AvailabilityPoint{At: begin, Count: p.Count})
			case p.At.Before(end) && p.At.After(points[len(points)-1].At):
				points = append(points, p)
			}
		}
	}
	return market.NewAvailability(points, end)
}
