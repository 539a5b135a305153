package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// launch is a requested purchase, until all its machines have joined or ended.
//
// Invariant: the intent, with its token, is on disk before the request is sent, and the same token never buys twice. So after any crash a
// machine either belongs to a launch in the journal, or must be ended; and a repeated request returns the same machines.
//
//  1. A plan or the reliable tier decides; the token is drawn and the `intent` line is written.
//  2. The request is sent. Until its answer, machines of the token may call or be listed (early).
//  3. Launched: each machine gets its `launch` line, and is billed from then on. Missing ones close their pools for a while.
//     LaunchFailed: the launch moves to refused, where machines that turn up all the same are still adopted.
//  4. When its last machine has joined or ended, the launch is forgotten (closeLaunch).
//
// A controller that takes over a run repeats young unanswered launches (again); later it only looks for their machines (decision 5).
type launch struct {
	token     string
	tier      step.Tier // empty = depends on what was bought: spot or on demand
	pool      market.Pool
	bid       market.USD
	or        []bidding.Choice // alternatives, if the provider chooses
	count     int              // machines that are unaccounted for
	asked     int              // machines requested
	why       string
	at        time.Time
	answered  bool
	machines  []*Machine        // machines supplied: those at the end have joined or ended, see closeLaunch
	again     bool              // both the previous controller and this one requested it
	inherited bool              // a previous controller decided it
	instead   []bidding.Release // given up when it is answered: it may supply nothing
}

// tierIn returns the tier of a machine of the launch in a pool.
func (l *launch) tierIn(pool market.Pool) step.Tier {
	switch {
	case l.tier != "":
		return l.tier
	case pool.Class == market.OnDemand:
		return step.Reliable
	}
	return step.Transient
}

// bidFor returns the bid for a machine of the launch in a pool: the provider may have chosen another pool than the first.
func (l *launch) bidFor(pool market.Pool) market.USD {
	for _, choice := range l.or {
		if choice.Pool == pool {
			return choice.Bid
		}
	}
	return l.bid
}

// short returns the pools that had too few machines: those that refused, or all if the provider does not say.
func (l *launch) short(refused []provisioner.Refusal) (pools []market.Pool) {
	named := append([]bidding.Choice{{Pool: l.pool}}, l.or...)
	for _, choice := range named {
		if slices.ContainsFunc(refused, func(r provisioner.Refusal) bool { return r.Pool == choice.Pool }) {
			pools = append(pools, choice.Pool)
		}
	}
	if len(pools) > 0 {
		return pools
	}
	for _, choice := range named {
		pools = append(pools, choice.Pool)
	}
	return pools
}

// BidText omits from the journal what is not a bid: for on-demand machines, and for providers without bids.
func BidText(pool market.Pool, bid market.USD) string {
	if bid == 0 || !pool.TakesBids() {
		return ""
	}
	return bid.String()
}

// choicesText returns choices as recorded in the journal.
func choicesText(or []bidding.Choice) (text []journal.Choice) {
	for _, choice := range or {
		text = append(text, journal.Choice{Pool: choice.Pool.String(), Bid: BidText(choice.Pool, choice.Bid)})
	}
	return text
}

// purchases are the launches.
type purchases struct {
	*step.Step
	cfg        *Config
	counter    uint64               // of tokens
	open       map[string]*launch   // by token, until all its machines have joined or ended
	refused    map[string]*launch   // by token, failed launches: machines may still appear
	unsure     time.Time            // when a launch whose machines may still appear was last given up
	considered []bidding.Considered // by the current plan
}

// unanswered calls f with each unanswered launch of a tier.
func (b *purchases) unanswered(of func(step.Tier) bool, each func(*launch)) {
	for _, token := range slices.Sorted(maps.Keys(b.open)) {
		if l := b.open[token]; of(l.tier) && !l.answered {
			each(l)
		}
	}
}

// awaited reports whether a launch is unanswered, so that unknown machines may exist.
func (b *purchases) awaited() bool {
	for _, l := range b.open {
		if !l.answered {
			return true
		}
	}
	return false
}

// launch writes the intent down and buys. The token makes the purchase idempotent.
func (b *purchases) launch(tier step.Tier, a bidding.Acquire) string {
	b.counter++
	l := &launch{
		token: fmt.Sprintf("%s-%d", b.cfg.Run, b.counter),
		tier:  tier, pool: a.Pool, bid: a.Bid, or: a.Or, count: a.Count, asked: a.Count, why: a.Why, at: b.Now,
	}
	b.open[l.token] = l
	b.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Intent, Why: a.Why, Token: l.token, Tier: string(tier), Pool: a.Pool.String(), Bid: BidText(a.Pool, a.Bid),
			Or: choicesText(a.Or), Count: a.Count,
			Details: consideredText(b.considered, b.cfg.Pools),
		}
	})
	b.request(l)
	return l.token
}

// replace carries out a plan for a fleet that is needed whole. It returns the machines to give up at once.
func (b *purchases) replace(plan bidding.Plan) []bidding.Release {
	instead := plan.Release
	for _, a := range plan.Acquire {
		b.open[b.launch("", a)].instead, instead = instead, nil
	}
	return instead
}

// request sends a launch to the provider. The journal has the whole request, so that a retry is identical.
func (b *purchases) request(l *launch) {
	r := provisioner.Request{
		Token: l.token, Pool: l.pool, Bid: l.bid, Count: l.asked, Intended: l.at,
	}
	if l.tier != "" {
		r.Tags = map[string]string{"tier": string(l.tier)}
	}
	for _, choice := range l.or {
		r.Or = append(r.Or, provisioner.Choice(choice))
	}
	b.Do(Launch{Request: r})
}
