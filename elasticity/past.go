package elasticity

import (
	"fmt"
	"strconv"
	"time"

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
	Bought     int           // machines in all
	Joins      int
	Generation ps.Generation
	Committed  ps.Clock // newest committed cut
	Done       ps.Clock
	Furthest   ps.Clock // highest clock that was ever done
	Stage      tiers.Stage
	Known      map[string]bool // instances that were launched, also those that are not in Machines
	Finished   bool            // the model is saved: there is nothing more to train
}

// PastMachine is a machine of the past.
type PastMachine struct {
	Instance    provisioner.Instance // with its end, if that is known
	Tier        tiers.Tier
	Incarnation ps.Incarnation
	Joined      int       // place in the order of joining; 0 = it took no part
	Left        bool      // it was given up
	Deadline    time.Time // of an eviction that was announced; zero = none was
}

// PastLaunch is a launch of the past; Count is how many machines of it are not accounted for.
type PastLaunch struct {
	Token string
	Tier  tiers.Tier
	Pool  market.Pool
	Bid   market.USD
	Count int
	Why   string
}

// ReadPast reads the journal of a run.
func ReadPast(entries []journal.Entry) (*Past, error) {
	r := pastReader{past: &Past{Generation: 1, Known: map[string]bool{}}, machines: map[string]*PastMachine{}, launches: map[string]*PastLaunch{}, charged: map[string]bool{}}
	for i, e := range entries {
		if err := r.read(e); err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
		}
	}
	for _, id := range r.order {
		if m := r.machines[id]; m.Instance.Ended.IsZero() || !r.charged[id] {
			r.past.Machines = append(r.past.Machines, *m)
		}
	}
	for _, token := range r.tokens {
		if l := r.launches[token]; l.Count > 0 {
			r.past.Open = append(r.past.Open, *l)
		}
	}
	return r.past, nil
}

type pastReader struct {
	past     *Past
	machines map[string]*PastMachine
	order    []string
	launches map[string]*PastLaunch
	tokens   []string
	charged  map[string]bool
}

func (r *pastReader) read(e journal.Entry) error {
	p := r.past
	switch e.Kind {
	case journal.Intent:
		return r.intent(e)
	case journal.Launch:
		return r.launch(e)
	case journal.LaunchFailed:
		if l := r.launches[e.Token]; l != nil {
			l.Count -= max(e.Count, 1)
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
	case journal.Charge:
		r.charged[e.Instance] = true
	case journal.Stage:
		n, err := strconv.Atoi(e.To)
		p.Stage = tiers.Stage(n)
		return err
	case journal.Export:
		p.Finished = e.Outcome == "finished"
	case journal.Cut:
		p.Committed = ps.Clock(e.Clock)
	case journal.Rollback:
		p.Generation = max(p.Generation, ps.Generation(e.Generation))
		p.Done, p.Committed = ps.Clock(e.Clock), ps.Clock(e.Clock)
	case journal.ClockDone:
		p.Done = ps.Clock(e.Clock)
		p.Furthest = max(p.Furthest, p.Done)
	}
	return nil
}

func (r *pastReader) intent(e journal.Entry) error {
	pool, bid, err := poolAndBid(e)
	if err != nil {
		return err
	}
	r.tokens = append(r.tokens, e.Token)
	r.launches[e.Token] = &PastLaunch{Token: e.Token, Tier: tiers.Tier(e.Tier), Pool: pool, Bid: bid, Count: e.Count, Why: e.Why}
	return nil
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
	if pool, err = market.ParsePool(e.Pool); err == nil && e.Bid != "" {
		bid, err = market.ParseUSD(e.Bid)
	}
	return pool, bid, err
}
