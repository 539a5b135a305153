package sweep

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/oracle"
)

// Names under which the oracle appears as a row among the policies. Oracle is a lower bound for every policy compared
// with it: it has the job's reliable tier unless a policy has none, and bids the job's maximum, the on-demand price, as
// TierML's policies do, unless a policy bids less. If interrupted hours are free, an oracle that may bid less often
// pays nothing, which is no yardstick: OracleFullBid is the same, but bids the job's maximum, and so bounds the
// policies that do, while others may undercut it. OracleAnyBid has the reliable tier, and may bid anything up to that.
// OracleOneFleet has the tier too, bids the on-demand price, and replaces a fleet only at the end of its paid hour, so
// that it holds one at a time: it does not bound policies that bid less and so earn free hours. Clairvoyant has the
// cheapest pool's machines at each instant, with free changes and no reliable tier (oracle.Clairvoyant): policies lose
// against it by starts, moves and evictions.
const (
	Oracle         = "oracle"
	OracleFullBid  = "oracle-full-bid"
	OracleAnyBid   = "oracle-any-bid"
	OracleOneFleet = "oracle-one-fleet"
	Clairvoyant    = "clairvoyant"
)

// Oracles are their names.
var Oracles = []string{OracleFullBid, Oracle, OracleAnyBid, OracleOneFleet, Clairvoyant}

// IsOracle reports whether a name is an oracle's rather than a policy's.
func IsOracle(policy string) bool { return slices.Contains(Oracles, policy) }

// oracleKind selects an oracle.
type oracleKind struct {
	tiered    bool // has the job's reliable tier
	lowerBids bool // may bid anything up to the job's maximum
	atEnds    bool // replaces a fleet that is paid by the hour only when its hour ends

	clairvoyant bool // excludes the others
}

// sightOf returns the oracle that bounds a policy.
func sightOf(p bidding.Policy) oracleKind {
	s := oracleKind{tiered: true}
	switch p := p.(type) {
	case bidding.OnDemand:
		return oracleKind{}
	case bidding.CostPerWork:
		s.lowerBids, s.atEnds = true, true
	case bidding.TierML:
		s.lowerBids = p.Bids != bidding.BidOnDemand
	case bidding.Checkpoint:
		s.lowerBids = p.Bids != bidding.BidOnDemand
	}
	if _, byRestart := p.(bidding.ByRestart); byRestart {
		s.tiered = false
	}
	return s
}

// sights returns the oracles for a row: one for a policy, its candidates' for Auto, and for Oracle those of all
// policies compared with it.
func (p Experiment) sights(name string) (out []oracleKind, err error) {
	switch name {
	case Clairvoyant:
		return []oracleKind{{clairvoyant: true}}, nil
	case OracleAnyBid:
		return []oracleKind{{tiered: true, lowerBids: true}}, nil
	case OracleOneFleet:
		return []oracleKind{{tiered: true, atEnds: true}}, nil
	case Oracle, OracleFullBid:
		for _, other := range p.Policies {
			if IsOracle(other) {
				continue
			}
			kinds, err := p.sights(other)
			if err != nil {
				return nil, err
			}
			for _, kind := range kinds {
				if name == OracleFullBid {
					kind.lowerBids, kind.atEnds = false, false
				}
				if !slices.Contains(out, kind) {
					out = append(out, kind)
				}
			}
		}
		if len(out) == 0 {
			out = []oracleKind{{tiered: true}}
		}
		return out, nil
	case Auto:
		for _, candidate := range candidatesOf(&p.Job) {
			kinds, err := p.sights(candidate)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(out, kinds[0]) {
				out = append(out, kinds[0])
			}
		}
		return out, nil
	}
	policy, err := bidding.ByName(name)
	if err != nil {
		return nil, err
	}
	return []oracleKind{sightOf(policy)}, nil
}

// Freedom describes what a comparison's oracle may do that TierML does not, and which policies require
// it; "" = nothing.
func (p Experiment) Freedom(oracle string) string {
	tierless, lower := p.exceptions()
	var parts []string
	if len(tierless) > 0 && (oracle == Oracle || oracle == OracleFullBid) {
		parts = append(parts, "go without reliable machines, as "+strings.Join(tierless, ", ")+" must")
	}
	if len(lower) > 0 && oracle == Oracle {
		parts = append(parts, "bid less than on demand, as "+strings.Join(lower, ", ")+" may")
	}
	return strings.Join(parts, "; ")
}

// BelowOracle names the policies that a comparison's oracle does not bound, because they bid less than it does.
func (p Experiment) BelowOracle(oracle string) []string {
	if _, lower := p.exceptions(); oracle == OracleFullBid || oracle == OracleOneFleet {
		return lower
	}
	return nil
}

// exceptions returns the policies without reliable machines, and those that bid less than they may.
func (p Experiment) exceptions() (tierless, lower []string) {
	for _, name := range p.Policies {
		if IsOracle(name) {
			continue
		}
		if kinds, err := p.sights(name); err == nil {
			if slices.ContainsFunc(kinds, func(s oracleKind) bool { return !s.tiered }) {
				tierless = append(tierless, name)
			}
			if slices.ContainsFunc(kinds, func(s oracleKind) bool { return s.lowerBids }) {
				lower = append(lower, name)
			}
		}
	}
	return tierless, lower
}

// bounds are the least costs from all starts of a length.
type bounds struct {
	search func() func(start time.Time) (market.USD, bool) // makes a search for each worker
	costs  []market.USD                                    // by start
	known  []bool
}

// seeLength is how many consecutive starts a worker searches at a time: neighbours share programmes.
const seeLength = 240

// foresee divides the search for the least cost of each start of a length into blocks. It returns none if the oracle
// does not know the market, or if a machine of any pool replaces a reliable one while others work: the oracle holds
// machines of one pool at a time.
func foresee(cfg *sim.Config, kind oracleKind, starts []time.Time) (*bounds, []block, error) {
	b := &bounds{costs: make([]market.USD, len(starts)), known: make([]bool, len(starts))}
	work := cfg.Job.Work * cfg.Timing.Speed / cfg.FLOPSPerVCPU / time.Hour.Seconds() // in vCPU hours: clocks have no other cost
	switch {
	case kind.clairvoyant:
		options := foresight(cfg, kind, starts).Options
		b.search = func() func(time.Time) (market.USD, bool) {
			return func(start time.Time) (market.USD, bool) { return oracle.Clairvoyant(options, start, work) }
		}
	case !foreseeable(cfg) || kind.tiered && cfg.Reliable.Count == 0:
		return b, nil, nil
	default:
		o, err := oracle.New(foresight(cfg, kind, starts))
		if err != nil {
			return nil, nil, err
		}
		b.search = func() func(time.Time) (market.USD, bool) {
			search := o.Search()
			return func(start time.Time) (market.USD, bool) { return search.Cost(start, work) }
		}
	}
	var blocks []block
	for chunk := range slices.Chunk(starts, seeLength) {
		blocks = append(blocks, block{seeing: true, bounds: []*bounds{b}, starts: chunk, offset: len(blocks) * seeLength})
	}
	return b, blocks, nil
}

// foreseeable reports whether only prices take machines: the oracle knows no other losses, and those may be free.
func foreseeable(cfg *sim.Config) bool {
	terms := cfg.Rules.Terms()
	recorded := slices.ContainsFunc(cfg.Pools, func(p bidding.Candidate) bool { return p.Availability != nil })
	return len(cfg.Faults) == 0 && cfg.Hazard == nil && terms.MaxLife == 0 && !recorded
}

func (b *block) see(ctx context.Context) {
	bound := b.bounds[0]
	search := bound.search()
	for n, start := range b.starts {
		if ctx.Err() != nil {
			return
		}
		i := b.offset + n
		bound.costs[i], bound.known[i] = search(start)
	}
}

// compare adds the oracle's results to a block's rows.
func (b *block) compare(rows []Row) {
	if b.seeing || len(b.bounds) == 0 {
		return
	}
	for n := range rows {
		row := &rows[n]
		row.OracleKnown = true
		for i, bound := range b.bounds {
			if least := bound.costs[b.offset+n]; i == 0 || least < row.Oracle {
				row.Oracle = least
			}
			row.OracleKnown = row.OracleKnown && bound.known[b.offset+n]
		}
		if !IsOracle(row.Policy) {
			continue
		}
		if row.Cost = row.Oracle; !row.OracleKnown {
			row.Cost, row.Outcome = 0, "unknown"
		}
	}
}

// foresight returns an oracle's configuration for a job: for runs with its reliable tier, or without one.
func foresight(cfg *sim.Config, kind oracleKind, starts []time.Time) oracle.Config {
	t := &cfg.Timing
	c := oracle.Config{
		LowerBids: kind.lowerBids, Terms: cfg.Rules.Terms(), Startup: t.Launch + t.Boot + t.Start, Notice: t.Notice,
		First: starts[0], Horizon: horizonOf(cfg), Last: starts[len(starts)-1].Add(horizonOf(cfg) + 3*time.Hour),
	}
	if kind.tiered {
		c.Reliable = oracle.Reliable{
			PerHour: c.Terms.Fees.Due(cfg.Reliable.Pool, cfg.Reliable.Type.OnDemand*market.USD(cfg.Reliable.Count)),
			Rate:    cfg.Reliable.Type.WorkRate() * float64(cfg.Reliable.Count), Stand: t.Launch + t.Boot,
		}
	}
	if kind.atEnds { // bidding.CostPerWork decides one start-up before a machine has to leave
		c.Exchange = t.Launch + t.Boot + t.Start + t.Load + cfg.Settings.DrainMargin + cfg.Settings.DrainMargin/4
	}
	add := func(pool market.Pool, kind market.InstanceType, h *market.History, bid market.USD) {
		machines := cfg.Want.Machines
		if cfg.Want.VCPU > 0 {
			machines = (cfg.Want.VCPU + kind.VCPU - 1) / kind.VCPU
		}
		c.Options = append(c.Options, oracle.Option{Pool: pool, Prices: h, Bid: bid, Machines: machines, Rate: kind.WorkRate()})
	}
	var others []market.Pool // on demand
	for _, p := range cfg.Pools {
		if p.Pool.Class == market.Spot {
			add(p.Pool, p.Type, p.History, min(p.Type.OnDemand, cmp.Or(p.MaxPrice, p.Type.OnDemand)))
		}
		onDemand := p.Pool
		onDemand.Class = market.OnDemand
		if p.Type.OnDemand > 0 && !slices.Contains(others, onDemand) {
			others = append(others, onDemand)
			add(onDemand, p.Type, market.Constant(p.Type.OnDemand), 0)
		}
	}
	if e := cfg.Equivalent; !slices.Contains(others, e.Pool) {
		add(e.Pool, e.Type, market.Constant(e.Type.OnDemand), 0)
	}
	return c
}
