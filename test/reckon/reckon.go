// Package reckon computes a run's figures from the lines of its journal independently, so that tests can compare pages and reports with
// them. It shares no code with them: it reads JSON, knows the hourly bills of rule book ec2-2017, and nothing else of ours.
package reckon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// line is the part of a journal line that is needed.
type line struct {
	T                                             time.Time
	Kind, Instance, Tier, Pool, Bid, USD, To, Why string
	At, Launched, Ended, Deadline                 *time.Time
	EndedBy                                       string `json:"ended_by"`
	Clock                                         int64
	Seconds, Work                                 float64
	Bytes                                         int64
	CPU                                           float64  `json:"cpu_seconds"`
	Memory                                        float64  `json:"memory_bytes"`
	LostClocks                                    int64    `json:"lost_clocks"`
	Train                                         *float64 `json:"train_loss"`
	Test                                          *float64 `json:"test_loss"`
	Redone                                        bool
	Outcome                                       string
	Details                                       struct {
		Clock    string
		Rules    string
		Clocks   int64
		Machines []struct {
			Name     string
			OnDemand string `json:"on_demand"`
			FLOPS    float64
		}
		OnDemand struct {
			Pool   string
			Count  int
			Beside float64
		} `json:"on_demand"`
	}
}

// Machine is a machine with its bill.
type Machine struct {
	ID, Tier, Pool  string
	Bid             float64
	Launched, Ended time.Time // Ended is zero while it runs
	Taken           bool      // by the provider
	Hours, USD      float64
	Training        bool    // now
	Leaving         bool    // now
	Cores, Memory   float64 // last used; bytes
	joined, noticed time.Time
	broken, flushed bool
	evicted         bool // reclaimed by the provider, rather than broken
	charges         []charge
}

type charge struct {
	from, to time.Time
	usd      float64
}

// Point is a test loss with the time and the dollars until then.
type Point struct {
	Clock     int64
	At        time.Time
	Loss, USD float64
}

// Figures of a run as of a time.
type Figures struct {
	Began, AsOf time.Time
	Outcome     string
	Costs
	Progress
	Changes
	Effort
	Prices   map[string]float64 // of now
	Machines []*Machine         // by launch and name
	Tests    []Point
}

// Costs of a run. Dollars are dollars.
type Costs struct {
	Total, Spot, OnDemand       float64
	Equivalent, Saving, Percent float64
	EquivalentHours             float64
	MachineHours, StartupHours  float64
	PerHour                     float64
}

// Progress of the training.
type Progress struct {
	Clock, Goal int64
	Stage       string
	Train, Test *float64
	Speed       float64
}

// Changes of the machines, and their cost for the training.
type Changes struct {
	Evictions, Failures, Rollbacks int
	Launches, Notices, Switches    int
	LaunchFailures, Redone         int
	LostClocks                     int64
	Lead, Flushes                  []float64 // wall-clock seconds, one each
}

// Effort is what was done, counted and measured.
type Effort struct {
	Clocks, Decisions, ClocksDone, CutCount int
	CutBytes, CheckpointBytes, MovedBytes   int64
	ClockSeconds, CutSeconds                float64 // sums
}

// reckoner accumulates the figures.
type reckoner struct {
	Figures
	machines map[string]*Machine
	prices   map[string][]price
	types    map[string]struct{ price, flops float64 }
	kept     map[int64]float64
	seen     map[int64]bool
	fleet    string
	count    int
	beside   float64
}

type price struct {
	at  time.Time
	usd float64
}

// Of computes the figures of a journal as of a time; a zero time means its last line, or a machine's end after it.
func Of(journal io.Reader, asOf time.Time) (*Figures, error) {
	r := &reckoner{machines: map[string]*Machine{}, prices: map[string][]price{}, kept: map[int64]float64{}, seen: map[int64]bool{},
		types: map[string]struct{ price, flops float64 }{}}
	lines := bufio.NewScanner(journal)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("reckoning: %w", err)
		}
		r.take(l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reckoning: %w", err)
	}
	if asOf.IsZero() {
		asOf = r.AsOf
		for _, m := range r.Machines {
			if m.Ended.After(asOf) {
				asOf = m.Ended
			}
		}
	}
	r.finish(asOf)
	return &r.Figures, nil
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0 // absent
	}
	return v
}

func (r *reckoner) take(l line) {
	if r.Began.IsZero() {
		r.Began = l.T
	}
	if l.T.After(r.AsOf) {
		r.AsOf = l.T
	}
	m := r.machines[l.Instance]
	switch l.Kind {
	case "start":
		r.Goal = l.Details.Clocks
		r.Speed = number(l.Details.Clock[strings.LastIndexByte(l.Details.Clock, '*')+1:])
		for _, t := range l.Details.Machines {
			r.types[t.Name] = struct{ price, flops float64 }{number(t.OnDemand), t.FLOPS}
		}
	case "plan":
		r.fleet, r.count, r.beside = l.Details.OnDemand.Pool, l.Details.OnDemand.Count, l.Details.OnDemand.Beside
		r.Decisions++
	case "intent":
		r.Decisions++
	case "price":
		r.prices[l.Pool] = append(r.prices[l.Pool], price{*l.At, number(l.USD)})
	case "launch":
		r.Launches++
		m = &Machine{ID: l.Instance, Tier: l.Tier, Pool: l.Pool, Bid: number(l.Bid), Launched: *l.Launched}
		r.machines[l.Instance] = m
		r.Machines = append(r.Machines, m)
	case "launch-failed":
		r.LaunchFailures++
	case "stage":
		r.Stage = l.To
	case "switch":
		r.Switches++
	case "rollback":
		r.Rollbacks++
		r.LostClocks += l.LostClocks
		r.Clock = l.Clock
		for c := range r.kept {
			if c > l.Clock {
				delete(r.kept, c)
			}
		}
	case "cut":
		r.CutBytes, r.CutSeconds, r.CutCount = r.CutBytes+l.Bytes, r.CutSeconds+l.Seconds, r.CutCount+1
	case "checkpoint":
		r.CheckpointBytes += l.Bytes
	case "move":
		r.MovedBytes += l.Bytes
	case "clock":
		r.takeClock(l)
	case "export", "done":
		if l.Test != nil {
			r.Test = l.Test
		}
		if l.Kind == "done" {
			r.Outcome = l.Outcome
		}
	default:
		if m != nil {
			r.takeMachine(m, l)
		}
	}
}

func (r *reckoner) takeClock(l line) {
	r.Clock, r.ClocksDone, r.ClockSeconds = l.Clock, r.ClocksDone+1, r.ClockSeconds+l.Seconds
	if l.Redone || r.seen[l.Clock] {
		r.Redone++
	}
	r.seen[l.Clock], r.kept[l.Clock] = true, l.Work
	if l.Train != nil {
		r.Train = l.Train
	}
	if l.Test != nil {
		r.Test = l.Test
		r.Tests = append(r.Tests, Point{Clock: l.Clock, At: l.T, Loss: *l.Test})
	}
}

func (r *reckoner) takeMachine(m *Machine, l line) {
	switch l.Kind {
	case "join":
		if m.Training = true; m.joined.IsZero() {
			m.joined = l.T
		}
	case "leave":
		if !m.noticed.IsZero() && !m.flushed {
			m.flushed = true
			r.Flushes = append(r.Flushes, l.T.Sub(m.noticed).Seconds()/r.Speed)
		}
		m.Training, m.Leaving = false, true
	case "use":
		m.Cores, m.Memory = l.CPU/l.Seconds, l.Memory
	case "notice":
		if l.Deadline != nil {
			r.Notices++
			r.Lead = append(r.Lead, l.Deadline.Sub(l.T).Seconds()/r.Speed)
			if m.noticed.IsZero() {
				m.noticed = l.T
			}
			m.Training, m.Leaving = false, true
		}
	case "evicted", "failed", "terminated":
		if l.Kind == "failed" && !m.broken {
			m.broken = true
			r.Failures++
		}
		m.Training, m.Leaving = false, true
		if l.Ended != nil {
			m.Ended, m.Taken = *l.Ended, l.EndedBy == "provider" || l.EndedBy == "" && l.Kind == "evicted"
			m.evicted = m.Taken && l.Kind != "failed"
		}
		if l.Kind == "evicted" {
			r.Evictions++
		}
	}
}

// priceAt returns the price of a pool at a time.
func (r *reckoner) priceAt(pool string, at time.Time) (usd float64) {
	if parts := strings.Split(pool, "/"); parts[4] == "on-demand" {
		return r.types[parts[3]].price
	}
	for _, p := range r.prices[pool] {
		if !p.at.After(at) {
			usd = p.usd
		}
	}
	return usd
}

// bill follows ec2-2017: whole hours from launch, each at the price when it begins; the hour in which the provider takes the machine is
// free.
func (r *reckoner) bill(m *Machine, end time.Time) {
	for from := m.Launched; from.Before(end) || from.Equal(m.Launched); from = from.Add(time.Hour) {
		to := from.Add(time.Hour)
		if m.Taken && !m.Ended.After(end) && to.After(end) {
			break
		}
		usd := r.priceAt(m.Pool, from)
		if m.Bid > 0 {
			usd = min(usd, m.Bid)
		}
		m.USD += usd
		m.charges = append(m.charges, charge{from, to, usd})
	}
}

func (r *reckoner) finish(asOf time.Time) {
	r.AsOf = asOf
	slices.SortStableFunc(r.Machines, func(a, b *Machine) int {
		if c := a.Launched.Compare(b.Launched); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	for _, m := range r.Machines {
		end := asOf
		if !m.Ended.IsZero() && !m.Ended.After(asOf) {
			end = m.Ended
		} else {
			r.PerHour += r.rate(m, asOf)
		}
		r.bill(m, end)
		m.Hours = end.Sub(m.Launched).Hours()
		r.MachineHours += m.Hours
		if strings.HasSuffix(m.Pool, "/spot") {
			r.Spot += m.USD
		} else {
			r.OnDemand += m.USD
		}
		began := m.joined
		if began.IsZero() || began.After(end) {
			if began = end; !m.noticed.IsZero() {
				began = m.noticed // it never joined, and is no longer wanted
			}
		}
		r.StartupHours += began.Sub(m.Launched).Hours()
	}
	r.Total = r.Spot + r.OnDemand
	r.compare()
	for i := range r.Tests {
		r.Tests[i].USD = r.paidUntil(r.Tests[i].At)
	}
	r.Prices = map[string]float64{}
	for pool := range r.prices {
		r.Prices[pool] = r.priceAt(pool, asOf)
	}
}

func (r *reckoner) rate(m *Machine, at time.Time) float64 {
	usd := r.priceAt(m.Pool, at)
	if m.Bid > 0 {
		usd = min(usd, m.Bid)
	}
	return usd
}

// compare computes the on-demand equivalent of the clocks in the model.
func (r *reckoner) compare() {
	var clocks []int64
	for c := range r.kept {
		clocks = append(clocks, c)
	}
	slices.Sort(clocks)
	work := 0.0
	for _, c := range clocks {
		work += r.kept[c]
	}
	r.Clocks = len(clocks)
	if parts := strings.Split(r.fleet, "/"); len(parts) == 5 {
		of := r.types[parts[3]]
		r.EquivalentHours = (work/(float64(r.count)*of.flops)*r.Speed + float64(len(clocks))*r.beside) / 3600
		r.Equivalent = r.EquivalentHours * float64(r.count) * of.price
		r.Saving = r.Equivalent - r.Total
		if r.Equivalent > 0 {
			r.Percent = 100 * r.Saving / r.Equivalent
		}
	}
}

// paidUntil distributes each hour's price evenly over the part of it that the machine lived.
func (r *reckoner) paidUntil(t time.Time) (usd float64) {
	for _, m := range r.Machines {
		for _, c := range m.charges {
			to := c.to
			if end := m.Ended; !end.IsZero() && end.Before(to) {
				to = end
			}
			if r.AsOf.Before(to) {
				to = r.AsOf
			}
			switch length := to.Sub(c.from); {
			case !t.Before(to):
				usd += c.usd
			case t.After(c.from):
				usd += c.usd * t.Sub(c.from).Seconds() / length.Seconds()
			}
		}
	}
	return usd
}

// Cents writes dollars as pages do.
func Cents(usd float64) string {
	cents := math.Floor(math.Abs(usd)*100 + 0.5 + 1e-7) // amounts are whole billionths: what looks like half a cent is one
	sign := ""
	if usd < 0 && cents > 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s$%d.%02d", sign, int64(cents)/100, int64(cents)%100)
}
