package fleet

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// restore loads the journal's state.
func (f *Fleet) restore(p *Ledger) {
	f.bought, f.Accounts.settled = p.Bought, p.Settled
	for _, life := range p.Lives {
		f.markets.outlived(life)
	}
	for _, l := range p.Open {
		f.buys.open[l.Token] = l.launch()
	}
	for _, l := range p.Refused {
		f.buys.refused[l.Token] = l.launch()
	}
	for _, was := range p.Machines {
		f.restoreMachine(was)
	}
	if s := p.Switch; s != nil && s.Token != "" {
		// Its machines may still be starting, or be running while the old pool's were not yet released.
		f.Switching = &switchover{from: s.From, to: s.To, token: s.Token}
		if f.buys.open[s.Token] == nil { // until its machines have joined or ended
			f.buys.open[s.Token] = &launch{token: s.Token, tier: step.Transient, pool: s.To, answered: true,
				machines: f.Roster.ordered(func(m *Machine) bool { return m.Token == s.Token })}
		}
	}
}

func (l PastLaunch) launch() *launch {
	return &launch{token: l.Token, tier: l.Tier, pool: l.Pool, bid: l.Bid, or: l.Or, count: l.Count, asked: l.Asked, why: l.Why, at: l.At, inherited: true}
}

// restoreMachine restores a machine from the journal.
func (f *Fleet) restoreMachine(was PastMachine) {
	i := was.Instance
	m := &Machine{
		Machine: step.Machine{ID: step.ID(i.ID), Tier: was.Tier, VCPU: f.markets.typeOf(i.Pool).VCPU, Number: was.Number, Joined: was.Joined,
			Lost: was.Left, Warned: !was.Deadline.IsZero(), Deadline: was.Deadline, Draining: was.Released != ""},
		Pool: i.Pool, bid: i.Bid, Token: i.Token, Launched: i.Launched, Why: was.Released, recalled: true, Moved: was.Moved,
	}
	if f.cfg.Forgotten != "" {
		m.Joined, m.Lost, m.Draining = 0, true, false
	}
	if i.State == provisioner.Terminated {
		m.Ended, m.Lost, m.EndedAt, m.EndedBy = true, true, i.Ended, i.EndedBy
		m.billed = was.Charged
		m.unwritten = m.Joined > 0 && !was.Left
	}
	f.Roster.seat(m)
	if l := f.buys.open[m.Token]; l != nil {
		l.machines = append(l.machines, m)
	}
	f.work.Enter(&m.Machine, f.markets.kind(i.Pool))
}

// Reader reads the lines of a journal that are about machines.
type Reader struct {
	Ledger   *Ledger
	Joins    int
	machines map[string]*PastMachine
	order    []string
	launches map[string]*PastLaunch
	tokens   []string
	bills    map[string]pastBill
	lastBill string // the machine of the last bill line
}

// pastBill is a machine's bill in the journal.
type pastBill struct {
	lines int
	sum   market.USD
}

// NewReader returns an empty Reader.
func NewReader(l *Ledger) *Reader {
	l.Prices, l.Known = map[string]time.Time{}, map[string]bool{}
	return &Reader{Ledger: l, machines: map[string]*PastMachine{}, launches: map[string]*PastLaunch{}, bills: map[string]pastBill{}}
}

// Close completes the ledger.
func (r *Reader) Close() {
	for _, id := range r.order {
		m := r.machines[id]
		bill := r.bills[id]
		m.Charged = bill.lines
		// The lines of a bill are consecutive, so that only the last bill may be incomplete.
		if m.Instance.Ended.IsZero() || m.Charged == 0 || id == r.lastBill {
			r.Ledger.Machines = append(r.Ledger.Machines, *m)
		} else {
			r.Ledger.Settled += bill.sum
		}
		if i := m.Instance; !i.Ended.IsZero() {
			r.Ledger.Lives = append(r.Ledger.Lives, market.Usage{Pool: i.Pool, Start: i.Launched, End: i.Ended, EndedBy: i.EndedBy})
		}
	}
	for _, token := range r.tokens {
		switch l := r.launches[token]; {
		case l.Count > 0:
			r.Ledger.Open = append(r.Ledger.Open, *l)
		case l.failed:
			r.Ledger.Refused = append(r.Ledger.Refused, *l)
		}
	}
}

// Read processes a journal entry.
func (r *Reader) Read(e journal.Entry) (err error) {
	switch e.Kind {
	case journal.Intent:
		return r.intent(e)
	case journal.Launch:
		return r.launch(e)
	case journal.LaunchFailed:
		if l := r.launches[e.Token]; l != nil {
			l.Count -= max(e.Count, 1)
			l.failed = true
		}
	case journal.Price:
		if e.At != nil {
			r.Ledger.Prices[e.Pool] = *e.At
		}
	case journal.Charge:
		if !unknownBill(e) {
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				return err
			}
			bill := r.bills[e.Instance]
			r.bills[e.Instance], r.lastBill = pastBill{bill.lines + 1, bill.sum + usd}, e.Instance
		}
	case journal.Switch:
		return r.switched(e)
	}
	m := r.machines[e.Instance]
	if m == nil {
		return nil
	}
	switch e.Kind {
	case journal.Join:
		r.Joins++
		m.Joined = r.Joins
		m.Moved += e.Bytes
	case journal.Notice:
		if e.Deadline != nil {
			m.Deadline = *e.Deadline
		}
	case journal.Leave:
		m.Left = true
	case journal.Evicted, journal.Failed, journal.Terminated:
		if e.Ended != nil {
			m.Instance.State, m.Instance.Ended = provisioner.Terminated, *e.Ended
			m.Instance.EndedBy, m.Instance.Reason = market.EndedBy(e.EndedBy), e.Why
		}
	case journal.Release:
		m.Released = e.Why
	}
	return nil
}

func (r *Reader) intent(e journal.Entry) error {
	pool, bid, err := poolAndBid(e)
	if err != nil {
		return err
	}
	or, err := choices(e.Or)
	if err != nil {
		return err
	}
	if s := r.Ledger.Switch; s != nil && s.Token == "" && s.To == pool {
		s.Token = e.Token
	}
	r.tokens = append(r.tokens, e.Token)
	r.launches[e.Token] = &PastLaunch{Token: e.Token, Tier: step.Tier(e.Tier), Pool: pool, Bid: bid, Or: or, Count: e.Count,
		Asked: e.Count, At: e.T, Why: e.Why}
	return nil
}

func (r *Reader) switched(e journal.Entry) error {
	from, err := market.ParsePool(e.From)
	if err != nil {
		return err
	}
	to, err := market.ParsePool(e.To)
	r.Ledger.Switch = &PastSwitch{From: from, To: to}
	return err
}

func (r *Reader) launch(e journal.Entry) error {
	pool, bid, err := poolAndBid(e)
	if err != nil || r.machines[e.Instance] != nil {
		return err
	}
	if l := r.launches[e.Token]; l != nil {
		l.Count--
	}
	r.Ledger.Bought++
	r.Ledger.Known[e.Instance] = true
	launched := e.T
	if e.Launched != nil {
		launched = *e.Launched
	}
	r.order = append(r.order, e.Instance)
	r.machines[e.Instance] = &PastMachine{
		Tier: step.Tier(e.Tier), Number: r.Ledger.Bought,
		Instance: provisioner.Instance{ID: provisioner.InstanceID(e.Instance), Pool: pool, Bid: bid, Token: e.Token,
			State: provisioner.Running, Launched: launched.Truncate(time.Second)},
	}
	return nil
}

func poolAndBid(e journal.Entry) (pool market.Pool, bid market.USD, err error) {
	choice, err := choiceOf(journal.Choice{Pool: e.Pool, Bid: e.Bid})
	return choice.Pool, choice.Bid, err
}

func choiceOf(written journal.Choice) (c bidding.Choice, err error) {
	if c.Pool, err = market.ParsePool(written.Pool); err == nil && written.Bid != "" {
		c.Bid, err = market.ParseUSD(written.Bid)
	}
	return c, err
}

func choices(written []journal.Choice) (all []bidding.Choice, err error) {
	for _, w := range written {
		c, err := choiceOf(w)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
