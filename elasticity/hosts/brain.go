package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// Config configures a Brain. Durations are in market time.
type Config struct {
	tempo.Settings
	Run      string
	Reliable fleet.Reliable // the reliable hosts to buy, and the maximum number
	Most     bidding.Want   // the maximum number of transient hosts, or of their vCPUs
	Pools    []fleet.Pool   // where to buy transient hosts
	Policy   bidding.Policy
	Types    []market.InstanceType // of slots

	Rules       market.RuleBook
	WholeHours  bool
	AskAgain    time.Duration
	Chooses     bool
	MaxDuration time.Duration // 0 = no limit
	Budget      market.USD    // the run ends gracefully before it costs more; 0 = none

	// Patience is how long a slot waits for a host, KeepEmpty how long a host without slots is kept if it is not paid by the hour.
	Patience, KeepEmpty time.Duration

	// Loss is the share of its speed that a job may lose on reliable hosts that it shares.
	Loss float64

	// Past and Lines were written by an earlier process; nil = there was none. Bills are its hosts' charges.
	Past  *elasticity.Past
	Lines []Line
	Bills map[step.ID]PastHost
}

// PastHost is a host whose bill is in the journal.
type PastHost struct {
	Pool    market.Pool
	Charges []market.Charge
}

// ReadHosts reads the cost of hosts from a journal.
func ReadHosts(entries []journal.Entry) (map[step.ID]PastHost, error) {
	all := map[step.ID]PastHost{}
	for i, e := range entries {
		if e.Kind != journal.Charge {
			continue
		}
		pool, err := market.ParsePool(e.Pool)
		usd, badUSD := market.ParseUSD(e.USD)
		from, badFrom := time.Parse(time.RFC3339, e.From)
		to, badTo := time.Parse(time.RFC3339, e.To)
		if err := errors.Join(err, badUSD, badFrom, badTo); err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
		}
		h := all[step.ID(e.Instance)]
		h.Pool, h.Charges = pool, append(h.Charges, market.Charge{From: from, To: to, Amount: usd})
		all[step.ID(e.Instance)] = h
	}
	return all, nil
}

// Brain buys hosts for the slots of its Book. It is stepped like any run's controller; between steps the Book may be used. It is not safe
// for concurrent use.
//
// To its fleet it has the role that training has in a job (fleet.Work, in work.go): slots are the work. The order of
// the parts of advance:
//  1. takeCalls and judge find out which hosts are alive. The slots of one that is not end at once (Lose).
//  2. know informs the Book of hosts that are going, so that nothing is placed on those, and their jobs are warned.
//  3. want places what waits. The demand is the hosts that stay and those that the other slots lack. The fleet does not trim itself to it
//     (Trim), as it could end hosts with slots: giveBack ends empty ones when their paid time ends.
//  4. Settle divides charges among slots, and Charge writes those of hosts that have ended.
//
// While a run is taken over, nothing is placed, bought or released until the provider has listed the hosts: slots that then have no host
// are ended by Strand.
type Brain struct {
	step   *step.Step
	Book   *Book
	cfg    Config
	fleet  *fleet.Fleet
	demand *fleet.Demand

	machines   map[step.ID]*machine
	order      []*machine          // machines that are not archived, in order of purchase
	calls      []step.ID           // hosts whose agents called since the last step
	warned     []elasticity.Warned // by hosts' agents since then
	joins      int
	takingOver bool
	ended      provisioner.Instance // the end that the fleet is handling
	charged    market.USD           // of hosts, by earlier processes
}

// machine is a host as a machine of the fleet.
type machine struct {
	*step.Machine
	host   *Host     // nil = it has ended
	since  time.Time // by Step.Awake: when it was added, and last heard
	called bool
	empty  time.Time // since when it has had no slot; zero = it has one
}

// New returns a brain of a book with the lines of Config.
func New(cfg Config) (*Brain, error) {
	least, err := leastOf(&cfg)
	if err != nil {
		return nil, err
	}
	rules := Rules{Provider: cfg.Reliable.Pool.Provider, Types: map[string]Size{}, Offers: map[step.Tier]Offer{}, Loss: cfg.Loss,
		Insist: cfg.Patience / 2}
	if cfg.Reliable.Count > 0 {
		rules.Offers[step.Reliable] = Offer{Least: SizeOf(cfg.Reliable.Type), Most: cfg.Reliable.Count, Network: cfg.Reliable.Type.Bandwidth}
	}
	if len(cfg.Pools) > 0 {
		rules.Provider = cfg.Pools[0].Pool.Provider
		rules.Offers[step.Transient] = Offer{Least: least, Most: cmp.Or(cfg.Most.Machines, cfg.Most.VCPU/least.VCPU)}
	}
	for _, t := range cfg.Types {
		rules.Types[t.Name] = SizeOf(t)
	}
	b := &Brain{step: &step.Step{Awake: step.NewAwake(cfg.DeadAfter), Speed: cfg.Speed}, Book: NewBook(rules), cfg: cfg, demand: &fleet.Demand{},
		machines: map[step.ID]*machine{}, takingOver: cfg.Past != nil}
	for i, l := range cfg.Lines {
		if err := b.Book.Apply(l); err != nil {
			return nil, fmt.Errorf("line %d of the book of slots: %w", i+1, err)
		}
	}
	for _, h := range cfg.Bills {
		b.charged += market.Total(h.Charges)
	}
	b.step.OnEnd = func(why string) { b.fleet.End(why) }
	f := &fleet.Config{Settings: cfg.Settings, Run: cfg.Run, Reliable: cfg.Reliable, Want: bidding.Want{VCPU: max(cfg.Most.VCPU, 1)}, Pools: cfg.Pools,
		Policy: cfg.Policy, Job: bidding.Job{Budget: cfg.Budget}, AskAgain: cfg.AskAgain, Chooses: cfg.Chooses, Rules: cfg.Rules, WholeHours: cfg.WholeHours}
	if cfg.Past != nil {
		f.Past = &cfg.Past.Ledger
	}
	b.fleet = fleet.New(f, b.step, b.demand)
	b.fleet.Serve(b)
	return b, nil
}

// leastOf returns the smallest transient host, in each dimension.
func leastOf(cfg *Config) (least Size, err error) {
	for _, p := range cfg.Pools {
		size := SizeOf(p.Type)
		if size.VCPU <= 0 || size.MemoryMiB <= 0 {
			return least, fmt.Errorf("the vCPUs or the memory of %s are not known: slots cannot be cut from it", p.Type.Name)
		}
		if least.VCPU == 0 {
			least = size
		}
		least = Size{min(least.VCPU, size.VCPU), min(least.MemoryMiB, size.MemoryMiB), min(least.GPUs, size.GPUs)}
	}
	if t := cfg.Reliable.Type; cfg.Reliable.Count > 0 && (t.VCPU <= 0 || t.MemoryMiB <= 0) {
		return least, fmt.Errorf("the vCPUs or the memory of %s are not known: slots cannot be cut from it", t.Name)
	}
	return least, nil
}

// Ask grants slots to a job: see Book.Ask.
func (b *Brain) Ask(now time.Time, user int, job string, r provisioner.Request, own Size) ([]provisioner.Instance, error) {
	if b.step.Closing() && b.Book.requests[key(job, r.Token)] == nil {
		return nil, fmt.Errorf("asking for slots: %w: the shared hosts are being released", provisioner.ErrNoCapacity)
	}
	return b.Book.Ask(now, user, job, r, own)
}

// Called records that the agent of a launch's host has called. The next step acts on it. It reports whether the host is known.
func (b *Brain) Called(id step.ID, launch string) bool {
	m := b.machines[id]
	if m == nil {
		return b.fleet.Awaiting() // the answer to its launch may be pending
	}
	if b.fleet.Roster.ByID[id].Token != launch {
		return false
	}
	if !slices.Contains(b.calls, id) {
		b.calls = append(b.calls, id)
	}
	return m.host != nil
}

// Warn records a provider's warning to a host's agent, for the next step.
func (b *Brain) Warn(id step.ID, of tiers.Warned) {
	if m := b.machines[id]; m == nil || !m.Warned || of.Rebalance {
		b.warned = append(b.warned, elasticity.Warned{ID: id, Deadline: of.Deadline, Rebalance: of.Rebalance})
	}
}

// Step processes events and returns the actions to take, in order. The slice is valid until the next Step. Book.Lines must be stored first.
func (b *Brain) Step(now time.Time, events ...elasticity.Event) []elasticity.Action {
	b.step.Begin(now)
	if b.step.Finished {
		return nil
	}
	if b.step.Started.IsZero() {
		b.step.Started = now
		if past := b.cfg.Past; past != nil && !past.Started.IsZero() {
			b.step.Started = past.Started
		}
		for _, m := range b.order { // of earlier processes
			m.since = b.step.Awake.Now()
		}
		b.fleet.Begin()
	}
	b.fleet.View.Stale()
	for _, e := range b.warned {
		b.fleet.Take(e)
	}
	b.warned = b.warned[:0]
	for _, e := range events {
		b.take(e)
	}
	b.advance()
	return b.step.Actions()
}

func (b *Brain) take(e elasticity.Event) {
	switch e := e.(type) {
	case elasticity.StopWanted:
		b.step.Stop = cmp.Or(b.step.Stop, e.Why)
		if e.Now && !b.step.Ending {
			b.step.Outcome = journal.Interrupted
			b.step.End(e.Why)
		}
	case elasticity.ScaleWanted:
		b.step.Do(elasticity.Scaled{ID: e.ID, Err: b.letGo(e)})
	case elasticity.InstanceEnded:
		b.ended = e.Instance
		b.fleet.Take(e)
		b.ended = provisioner.Instance{}
	case elasticity.Listed:
		b.fleet.Take(e)
		if b.takingOver && b.fleet.Surveyed() {
			b.takingOver = false
			b.Book.Strand(b.step.Now)
			b.fleet.TakenOver()
		}
	default:
		b.fleet.Take(e)
	}
}

// letGo makes a transient host leave when its paid time ends, at the request of a scheduler that finds it too expensive.
func (b *Brain) letGo(e elasticity.ScaleWanted) error {
	m := b.machines[step.ID(e.Cancel)]
	switch {
	case e.Cancel == "":
		return errors.New("jobs decide how many slots they have, and the hosts follow; scale a job")
	case m == nil || m.host == nil || m.Lost || m.Ended:
		return fmt.Errorf("there is no host %s", e.Cancel)
	case m.Tier != step.Transient:
		return fmt.Errorf("%s is reliable: it holds what jobs have learnt", e.Cancel)
	case m.Staying():
		b.fleet.Release(m.Machine, "not worth its price: "+e.By)
		b.fleet.View.Stale()
	}
	return nil
}

// advance does whatever the state now requires.
func (b *Brain) advance() {
	if b.cfg.MaxDuration > 0 && b.step.Stop == "" && b.step.Now.Sub(b.step.Started) >= b.cfg.MaxDuration {
		b.step.Stop = "max_duration " + b.cfg.MaxDuration.String() + " is over"
	}
	b.fleet.Spending.Keep()
	b.takeCalls()
	b.judge()
	b.know()
	if !b.takingOver {
		b.Book.Expire(b.step.Now, b.cfg.Patience)
		b.want()
		b.fleet.Secure()
		b.fleet.Buy()
		b.fleet.Drain()
		b.fleet.Retire()
		b.giveBack()
	}
	b.Book.Settle(b.step.Now, b.charges)
	b.fleet.Charge()
	b.end()
}

// takeCalls processes the agents' calls.
func (b *Brain) takeCalls() {
	for _, id := range b.calls {
		m := b.machines[id]
		m.since = b.step.Awake.Now()
		if m.called || m.host == nil {
			continue
		}
		m.called, m.host.Called = true, true
		if m.Joined == 0 {
			b.joins++
			m.Joined = b.joins
			b.fleet.Reorder()
			b.fleet.Joined(m.Machine, func() journal.Entry { return journal.Entry{Why: "it takes slots"} })
			b.fleet.Progressed()
		}
	}
	b.calls = b.calls[:0]
}

// judge gives up hosts whose agents do not call, or have gone silent.
func (b *Brain) judge() {
	for _, m := range b.order {
		switch {
		case m.Lost || m.Ended:
		case !m.called && b.step.Awake.Over(m.since, b.cfg.BootWithin):
			b.fleet.GiveUp(m.Machine, "its agent did not call")
		case m.called && b.step.Awake.Over(m.since, b.silence()):
			b.fleet.GiveUp(m.Machine, fmt.Sprintf("no sign of life for %.3g s", b.step.Wall(b.silence())))
		}
	}
}

// silence returns how long an agent may be silent: it calls at least every CallEvery.
func (b *Brain) silence() time.Duration { return b.cfg.DeadAfter + b.cfg.Market(CallEvery) }

// CallEvery is the longest interval between calls of a host's agent, in wall-clock time.
const CallEvery = 2 * time.Second

// know copies the fleet's knowledge of hosts into the book.
func (b *Brain) know() {
	closing := b.step.Stop != "" && !b.step.Ending
	for _, m := range b.order {
		if m.host == nil {
			continue
		}
		m.host.Stays = m.Staying() && !b.step.Closing()
		switch {
		case m.Warned:
			m.host.Deadline = m.Deadline
		case (m.Leaving || closing) && m.host.Deadline.IsZero(): // jobs are warned as if by a provider
			m.host.Deadline = b.step.Now.Add(max(b.cfg.DrainMargin, b.cfg.Notice))
		}
		switch {
		case m.host.Used != (Size{}):
			m.empty = time.Time{}
		case m.empty.IsZero():
			m.empty = b.step.Now
		}
	}
}

// want requests hosts for the waiting slots.
func (b *Brain) want() {
	if b.step.Closing() {
		return
	}
	fresh := map[step.Tier]int{}
	for _, tier := range []step.Tier{step.Reliable, step.Transient} {
		fresh[tier] = b.Book.Place(b.step.Now, tier)
	}
	reliable, vcpu := fresh[step.Reliable], fresh[step.Transient]*b.Book.rules.Offers[step.Transient].Least.VCPU
	for _, m := range b.order {
		switch {
		case !m.Staying():
		case m.Tier == step.Reliable:
			reliable++
		default:
			vcpu += m.VCPU
		}
	}
	if reliable != b.demand.Reliable || vcpu != b.demand.Workers.VCPU {
		b.demand.Reliable, b.demand.Workers = reliable, bidding.Want{VCPU: vcpu}
		b.fleet.Demanded()
		b.fleet.View.Stale()
	}
}

// giveBack ends hosts without slots when their paid time ends.
func (b *Brain) giveBack() {
	for _, m := range b.order {
		if !m.Staying() || m.host == nil || m.host.Used != (Size{}) || m.empty.IsZero() {
			continue
		}
		if !b.step.Now.Before(b.givenBack(m)) {
			b.fleet.Terminate(m.Machine, "no job has a slot on it, and its paid time is over")
			b.fleet.View.Stale()
		}
	}
}

func (b *Brain) givenBack(m *machine) time.Time {
	if b.cfg.WholeHours {
		return b.fleet.PaidUntil(b.fleet.Roster.ByID[m.ID]).Add(-b.cfg.DrainMargin)
	}
	return m.empty.Add(b.cfg.KeepEmpty)
}

// charges returns a host's charges until a time, if they are final.
func (b *Brain) charges(id step.ID, until time.Time) (Size, []market.Charge, bool) {
	if b.machines[id] == nil {
		past, known := b.cfg.Bills[id]
		return b.sizeIn(past.Pool), past.Charges, known || !b.takingOver
	}
	m := b.fleet.Roster.ByID[id]
	asOf := closed(until, m.Launched, m.Pool, b.cfg.Rules.Terms())
	if m.Ended {
		asOf = m.EndedAt
	} else if b.step.Now.Before(asOf) {
		return Size{}, nil, false
	}
	lines, known := b.fleet.Accounts.Due(id, asOf)
	return b.sizeIn(m.Pool), lines, known
}

// sizeIn returns the size of a pool's hosts.
func (b *Brain) sizeIn(pool market.Pool) Size {
	for _, p := range b.cfg.Pools {
		if p.Pool == pool {
			return SizeOf(p.Type)
		}
	}
	return SizeOf(b.cfg.Reliable.Type)
}

// Bill returns the cost of the hosts that have a bill, by payer.
func (b *Brain) Bill() Bill {
	return b.Book.BillOf(b.charged+b.fleet.Accounts.Charged, b.step.Now, nil)
}

// end finishes once every host has ended and its bill is divided.
func (b *Brain) end() {
	if b.step.Stop != "" && !b.step.Ending && !b.takingOver && (!b.Book.Live() || !slices.ContainsFunc(b.order, b.serves)) {
		b.step.Outcome = journal.Interrupted
		b.step.End(b.step.Stop)
	}
	if !b.step.Ending || !b.fleet.Over() {
		return
	}
	b.step.Finished = true
	b.step.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Done, Outcome: b.step.Outcome, Why: cmp.Or(b.step.FailWhy, b.step.Stop)}
	})
	b.step.Do(elasticity.Finish{Outcome: b.step.Outcome})
}

// serves reports whether a host has slots with time left.
func (b *Brain) serves(m *machine) bool {
	return m.host != nil && m.host.Used != (Size{}) && (m.host.Deadline.IsZero() || b.step.Now.Before(m.host.Deadline))
}

// NextWake returns the latest time for the next Step. It is always after the last Step.
func (b *Brain) NextWake() time.Time {
	wake := b.step.Now.Add(b.cfg.PlanEvery)
	by := func(t time.Time) {
		if t.After(b.step.Now) && t.Before(wake) {
			wake = t
		}
	}
	by(b.fleet.NextPlan)
	by(b.step.Awake.NextBeat())
	b.fleet.NextDue(by)
	for _, m := range b.order {
		if m.host == nil {
			continue
		}
		by(m.host.Deadline)
		if !m.empty.IsZero() {
			by(b.givenBack(m))
		}
	}
	for _, s := range b.Book.live {
		if s.waiting() {
			by(s.Asked.Add(b.cfg.Patience))
		}
	}
	for _, s := range b.Book.owing {
		if m := b.fleet.Roster.ByID[s.Host]; m != nil && !m.Ended {
			by(closed(s.Ended, m.Launched, m.Pool, b.cfg.Rules.Terms()))
		}
	}
	return wake
}
