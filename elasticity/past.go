package elasticity

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Past is what earlier controllers of a run have written down: all that a new one knows of the run before it has asked
// the provider and the machines.
type Past struct {
	Machines   []PastMachine // that may still be there, or whose bill is not written yet; as they were launched
	Open       []PastLaunch  // launches whose answer was not written down whole
	Refused    []PastLaunch  // launches that failed, or gave fewer than were asked for: machines may turn up all the same
	Bought     int           // machines in all
	Joins      int
	Generation ps.Generation
	Committed  ps.Clock // newest committed cut
	Done       ps.Clock
	Furthest   ps.Clock // highest clock that was ever done
	Stage      tiers.Stage
	Load       journal.StageDetails // what load asks of the stage
	Paused     string               // why there are no transient machines, by a budget
	Wish       journal.ScaleDetails // what people or schedulers have asked for
	Switch     *PastSwitch          // the last one: it may be under way
	Started    time.Time            // when limits of time began to count; zero = now
	Figures    []PastFigure         // that stopping rules are about, by clock
	Lives      []market.Usage       // of the machines that have ended
	Prices     map[string]time.Time // of the last price that is written down, by pool
	Known      map[string]bool      // instances that were launched, also those that are not in Machines
	Finished   bool                 // the model is saved: there is nothing more to train
}

// PastMachine is a machine of the past.
type PastMachine struct {
	Instance    provisioner.Instance // with its end, if that is known
	Tier        tiers.Tier
	Incarnation ps.Incarnation
	Joined      int       // place in the order of joining; 0 = it took no part
	Left        bool      // it was given up
	Deadline    time.Time // of an eviction that was announced; zero = none was
	Charged     int       // lines of its bill that are written down; whoever wrote them may not have come to the last one
	Released    string    // why it goes when what is paid for it is over; empty = it stays
}

// PastSwitch is a proactive switch from one pool to another.
type PastSwitch struct {
	From, To market.Pool
	Token    string // of the launch in the new pool
}

// PastFigure is what a clock measured.
type PastFigure struct {
	Clock  ps.Clock
	Figure float64
}

// PastLaunch is a launch of the past; Count is how many machines of it are not accounted for.
type PastLaunch struct {
	Token string
	Tier  tiers.Tier
	Pool  market.Pool
	Bid   market.USD
	Or    []bidding.Choice // pools that the provider may have chosen instead
	Count int
	Asked int       // how many machines were asked for
	At    time.Time // when
	Why   string

	failed bool
}

// ReadPast reads the journal of a run.
func ReadPast(entries []journal.Entry) (*Past, error) {
	r := pastReader{past: &Past{Generation: 1, Prices: map[string]time.Time{}, Known: map[string]bool{}}, machines: map[string]*PastMachine{}, launches: map[string]*PastLaunch{}, charged: map[string]int{}}
	for i, e := range entries {
		if err := r.read(e); err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
		}
	}
	for _, id := range r.order {
		m := r.machines[id]
		m.Charged = r.charged[id]
		// The lines of a bill follow each other, so that only the last bill may lack some.
		if m.Instance.Ended.IsZero() || m.Charged == 0 || id == r.lastBill {
			r.past.Machines = append(r.past.Machines, *m)
		}
		if i := m.Instance; !i.Ended.IsZero() {
			r.past.Lives = append(r.past.Lives, market.Usage{Pool: i.Pool, Start: i.Launched, End: i.Ended, EndedBy: i.EndedBy})
		}
	}
	for _, token := range r.tokens {
		switch l := r.launches[token]; {
		case l.Count > 0:
			r.past.Open = append(r.past.Open, *l)
		case l.failed:
			r.past.Refused = append(r.past.Refused, *l)
		}
	}
	return r.past, nil
}

// Distrust is for a journal of which some lines were lost: nobody knows what they said, so that the machines' word cannot be
// checked against it. All of them are given up, and training goes on from the newest checkpoint in a generation that none of
// them has seen.
func (p *Past) Distrust(lost int) {
	p.Generation += ps.Generation(lost)
	for i := range p.Machines {
		p.Machines[i].Left = true
	}
}

type pastReader struct {
	past     *Past
	machines map[string]*PastMachine
	order    []string
	launches map[string]*PastLaunch
	tokens   []string
	charged  map[string]int // lines of bills, by instance
	lastBill string         // whose line was the last
	goesOn   bool           // from one start of a controller to the next, which was not in order
}

func (r *pastReader) read(e journal.Entry) (err error) {
	p := r.past
	switch e.Kind {
	case journal.Start:
		if !r.goesOn {
			p.Started, r.goesOn = e.T, true
		}
	case journal.Done:
		r.goesOn = false
	case journal.Intent:
		return r.intent(e)
	case journal.Launch:
		return r.launch(e)
	case journal.LaunchFailed:
		if l := r.launches[e.Token]; l != nil {
			l.Count -= max(e.Count, 1)
			l.failed = true
		}
	case journal.Join:
		if m := r.machines[e.Instance]; m != nil {
			p.Joins++
			m.Joined = p.Joins
		}
	case journal.Notice:
		if m := r.machines[e.Instance]; m != nil && e.Deadline != nil {
			m.Deadline = *e.Deadline
		}
	case journal.Leave:
		if m := r.machines[e.Instance]; m != nil {
			m.Left = true
		}
	case journal.Evicted, journal.Failed, journal.Terminated:
		if m := r.machines[e.Instance]; m != nil && e.Ended != nil {
			m.Instance.State, m.Instance.Ended = provisioner.Terminated, *e.Ended
			m.Instance.EndedBy, m.Instance.Reason = market.EndedBy(e.EndedBy), e.Why
		}
	case journal.Price:
		if e.At != nil {
			p.Prices[e.Pool] = *e.At
		}
	case journal.Charge:
		if !unknownBill(e) {
			r.charged[e.Instance]++
			r.lastBill = e.Instance
		}
	case journal.Stage:
		n, err := strconv.Atoi(e.To)
		p.Stage, p.Load = tiers.Stage(n), journal.StageDetails{}
		if err == nil && len(e.Details) > 0 {
			p.Load, err = e.StageDetails()
		}
		return err
	case journal.Budget:
		switch e.To {
		case journal.Paused:
			p.Paused = e.Why
		case journal.GoesOn:
			p.Paused = ""
		}
	case journal.Scale:
		if len(e.Details) > 0 {
			p.Wish, err = e.ScaleDetails()
		}
		return err
	case journal.Switch:
		return r.switched(e)
	case journal.Release:
		if m := r.machines[e.Instance]; m != nil {
			m.Released = e.Why
		}
	case journal.Export:
		p.Finished = e.Outcome == "finished"
	case journal.Cut:
		p.Committed = ps.Clock(e.Clock)
	case journal.Rollback:
		p.Generation = max(p.Generation, ps.Generation(e.Generation))
		p.Done, p.Committed = ps.Clock(e.Clock), ps.Clock(e.Clock)
	case journal.ClockDone:
		p.Done = ps.Clock(e.Clock)
		if figure := cmp.Or(e.TestLoss, e.TrainLoss); figure != nil && p.Done > p.Furthest {
			p.Figures = append(p.Figures, PastFigure{p.Done, *figure})
		}
		p.Furthest = max(p.Furthest, p.Done)
	}
	return nil
}

func (r *pastReader) intent(e journal.Entry) error {
	pool, bid, err := poolAndBid(e)
	if err != nil {
		return err
	}
	or, err := choices(e.Or)
	if err != nil {
		return err
	}
	if s := r.past.Switch; s != nil && s.Token == "" && s.To == pool {
		s.Token = e.Token
	}
	r.tokens = append(r.tokens, e.Token)
	r.launches[e.Token] = &PastLaunch{Token: e.Token, Tier: tiers.Tier(e.Tier), Pool: pool, Bid: bid, Or: or, Count: e.Count,
		Asked: e.Count, At: e.T, Why: e.Why}
	return nil
}

func (r *pastReader) switched(e journal.Entry) error {
	from, err := market.ParsePool(e.From)
	if err != nil {
		return err
	}
	to, err := market.ParsePool(e.To)
	r.past.Switch = &PastSwitch{From: from, To: to}
	return err
}

func (r *pastReader) launch(e journal.Entry) error {
	pool, bid, err := poolAndBid(e)
	if err != nil || r.machines[e.Instance] != nil {
		return err
	}
	if l := r.launches[e.Token]; l != nil {
		l.Count--
	}
	r.past.Bought++
	r.past.Known[e.Instance] = true
	launched := e.T
	if e.Launched != nil {
		launched = *e.Launched
	}
	r.order = append(r.order, e.Instance)
	r.machines[e.Instance] = &PastMachine{
		Tier: tiers.Tier(e.Tier), Incarnation: ps.Incarnation(r.past.Bought),
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
