package cost

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
)

// Report reports the run as of a time; a zero time means AsOf, all that the journal knows. Machines whose end is unknown are still running
// then and owe what is due. It is an error if a price that the bill needs is not in the journal.
func (l *Ledger) Report(asOf time.Time) (*Report, error) {
	if !l.started {
		return nil, fmt.Errorf("the journal is empty")
	}
	if asOf.IsZero() {
		asOf = l.AsOf()
	}
	bills, err := l.bills(asOf)
	if err != nil {
		return nil, err
	}
	r := &Report{Run: l.run(asOf), Training: l.trained(), Programs: l.ran(asOf), Decisions: slices.Clone(l.decisions), Warnings: slices.Clone(l.warnings)}
	l.addInstances(r, bills, asOf)
	l.addPools(r, bills, asOf)
	l.addTotals(r, bills, asOf)
	l.addWaste(r, bills, asOf)
	if r.Programs != nil && l.start.Program.Sweep {
		r.Programs.Trials = l.trialsOf(bills, asOf)
	}
	paid := newMeter(bills, asOf)
	l.addProgress(r, paid, asOf)
	l.addEvents(r)
	l.addSeries(r, paid, asOf)
	r.Failure = failure(r.Run, r.Programs)
	return r, nil
}

// bill is a machine with its charges.
type bill struct {
	*machine
	charges []market.Charge
}

// bills are ordered by launch time and name.
func (l *Ledger) bills(asOf time.Time) ([]bill, error) {
	var bills []bill
	for _, m := range l.order {
		charges, err := l.charges(m, asOf)
		if err != nil {
			return nil, err
		}
		bills = append(bills, bill{m, charges})
	}
	slices.SortFunc(bills, func(a, b bill) int {
		return cmp.Or(a.usage.Start.Compare(b.usage.Start), cmp.Compare(a.id, b.id))
	})
	return bills, nil
}

func (l *Ledger) run(asOf time.Time) Run {
	run := Run{
		Name: l.start.Name, Version: l.start.Version, App: l.start.App, Kind: l.start.JobKind(), Replayed: !l.clock.IsReal(), Metric: cmp.Or(l.start.Metric, "loss"),
		Cloud: l.start.Cloud, Rules: l.rules.Name(), Seed: l.start.Seed, Finished: l.Finished(), Outcome: "unfinished",
		Began: l.first, AsOf: asOf, Speed: l.clock.Speed, Seconds: asOf.Sub(l.first).Seconds(),
		ZoneIDs: l.start.ZoneIDs, Resumed: len(l.resumed),
	}
	if run.Resumed > 0 {
		run.ResumedAt = &l.resumed[run.Resumed-1]
	}
	var job struct{ Sweep struct{ Search string } }
	if json.Unmarshal(l.start.Job, &job) == nil {
		run.Search = job.Sweep.Search
	}
	if l.plan != nil {
		run.Policy = l.plan.Policy
	}
	if l.export != nil {
		run.Model = l.export.Model
	}
	if l.done != nil {
		run.Outcome, run.Why, run.Model = l.done.Outcome, l.done.Why, cmp.Or(l.done.Model, run.Model)
		run.Log = l.done.Log
	}
	return run
}

func (l *Ledger) trained() Training {
	t := &l.training
	out := Training{RedoneClocks: t.redone(), LostClocks: t.lost, WorkInAll: t.done}
	out.Clocks, out.Work = t.work()
	if l.start.ClocksPerEpoch > 0 {
		out.Epochs = float64(out.Clocks) / l.start.ClocksPerEpoch
	}
	out.TrainLoss, out.TestLoss = t.last()
	for _, e := range []*journal.Entry{l.export, l.done} { // measured with the saved model
		if e != nil && e.TestLoss != nil {
			out.TestLoss = e.TestLoss
		}
	}
	if l.export != nil {
		if d, err := l.export.ExportDetails(); err == nil {
			out.Quality = d.Quality
		}
	}
	if best, ok := t.best(); ok {
		out.BestTestLoss, out.BestClock = best.test, best.clock
	}
	out.Serving = l.served()
	return out
}

// served returns the last profile's figures; nil = none.
func (l *Ledger) served() *Serving {
	if l.profile == nil || l.profile.Seconds <= 0 {
		return nil
	}
	d, err := l.profile.ProfileDetails()
	if err != nil {
		return nil // add has checked
	}
	out := &Serving{Clock: l.profile.Clock, ClockSeconds: l.profile.Seconds}
	for _, nanos := range d.Serving {
		out.Seconds += float64(nanos) / 1e9
	}
	out.Cores = out.Seconds / out.ClockSeconds
	return out
}

func (l *Ledger) addInstances(r *Report, bills []bill, asOf time.Time) {
	for _, b := range bills {
		i := Instance{
			ID: b.id, Tier: b.tier, Pool: b.usage.Pool.String(), Bid: b.usage.Bid, Launched: b.usage.Start,
			Fate: b.fate(asOf), Why: b.why, Hours: b.life(asOf).length().Hours(), USD: market.Total(b.charges),
			Warned: known(b.noticed), Charges: []Charge{},
		}
		if i.Fate != "running" {
			i.Ended, i.EndedBy = known(b.usage.End), string(b.usage.EndedBy)
		}
		if len(b.joined) > 0 {
			i.Joined = known(b.joined[0].from)
		}
		for _, c := range b.charges {
			i.Charges = append(i.Charges, Charge{c.From, c.To, c.Rate, c.Amount, c.Free, c.Note})
		}
		r.Instances = append(r.Instances, i)
	}
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (l *Ledger) addPools(r *Report, bills []bill, asOf time.Time) {
	rows := map[market.Pool]*Pool{}
	var pools []market.Pool
	for _, b := range bills {
		pool := b.usage.Pool
		row, ok := rows[pool]
		if !ok {
			row = &Pool{Pool: pool.String(), OnDemand: l.types[pool.Type].price}
			rows[pool] = row
			pools = append(pools, pool)
		}
		row.Machines++
		if b.evicted(asOf) {
			row.Evicted++
		}
		life := b.life(asOf)
		row.Hours += life.length().Hours()
		for _, c := range b.charges {
			row.USD += c.Amount
			if c.Free {
				row.FreeHours += life.overlap(interval{c.From, c.To}).Hours()
			}
		}
	}
	slices.SortFunc(pools, market.Pool.Compare)
	for _, pool := range pools {
		row := rows[pool]
		if row.Hours > 0 {
			row.PerHour = dollars(row.USD) / row.Hours
			if row.OnDemand > 0 {
				row.Saving = 1 - row.PerHour/dollars(row.OnDemand)
			}
		}
		r.Pools = append(r.Pools, *row)
	}
}

func (l *Ledger) addTotals(r *Report, bills []bill, asOf time.Time) {
	t := &r.Totals
	for _, b := range bills {
		sum := market.Total(b.charges)
		t.Total += sum
		for _, c := range b.charges {
			switch c.Note {
			case market.CommittedNote:
				t.Committed += c.Rate.For(c.To.Sub(c.From))
			case market.MovedNote:
				t.Moved += c.Amount
			}
		}
		if b.usage.Pool.Class == market.Spot {
			t.Spot += sum
		} else {
			t.OnDemand += sum
		}
		t.MachineHours += b.life(asOf).length().Hours()
		if b.evicted(asOf) {
			t.Evictions++
		}
	}
	t.Rollbacks = l.training.rollbacks
	t.SameMachines = l.sameMachines(asOf)
	if e, ok := l.equivalent(); ok {
		r.Equivalent = &e
		t.Equivalent, t.Saving = e.USD, e.USD-t.Total
		if e.USD > 0 {
			t.SavingPercent = 100 * float64(t.Saving) / float64(e.USD)
		}
	}
	if l.hasCharges && l.Finished() && l.charged != t.Total {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"the journal's charge lines add up to $%s, its launches, ends and prices to $%s", l.charged, t.Total))
	}
}

func (l *Ledger) addWaste(r *Report, bills []bill, asOf time.Time) {
	again := l.training.redoneIntervals(l.clock.ToMarket)
	r.Waste.Programs, r.Waste.Rounds = l.start.Program != nil, l.start.JobKind() == journal.DiLoCo
	for _, b := range bills {
		pieces := b.pieces(again, asOf)
		if l.start.Program != nil {
			pieces = l.programs.piecesOf(b.machine, asOf)
		}
		r.Waste.split(b.machine, b.charges, pieces, asOf)
	}
}

func (l *Ledger) addProgress(r *Report, paid *meter, asOf time.Time) {
	per := func(n float64) *float64 {
		if !(n > 0) {
			return nil
		}
		v := dollars(r.Totals.Total) / n
		return &v
	}
	r.Progress.PerClock, r.Progress.PerEpoch = per(float64(r.Training.Clocks)), per(r.Training.Epochs)
	for _, limit := range l.milestones() {
		if p, ok := l.training.reached(limit.loss); ok && !p.at.After(asOf) {
			r.Progress.Until = append(r.Progress.Until, Reached{
				Loss: limit.loss, Note: limit.note, Clock: p.clock, At: p.at,
				Seconds: p.at.Sub(l.first).Seconds(), USD: paid.at(p.at),
			})
		}
	}
}

// milestone is a loss that is worth knowing the price of.
type milestone struct {
	loss float64
	note string
}

// milestones returns the job's target, and the best test loss with a margin.
func (l *Ledger) milestones() []milestone {
	var out []milestone
	if l.start.TargetLoss > 0 {
		out = append(out, milestone{l.start.TargetLoss, "the job's target"})
	}
	if best, ok := l.training.best(); ok {
		for _, percent := range []float64{10, 5, 2, 1, 0} {
			note := "the best"
			if percent > 0 {
				note = fmt.Sprintf("within %g %% of the best", percent)
			}
			out = append(out, milestone{*best.test * (1 + percent/100), note})
		}
	}
	slices.SortStableFunc(out, func(a, b milestone) int { return cmp.Compare(b.loss, a.loss) })
	return out
}

func (l *Ledger) addEvents(r *Report) {
	for _, line := range slices.Concat(l.events, l.lines.Open()) {
		r.Events = append(r.Events, event(line))
	}
}

func event(l words.Line) Event {
	return Event{T: l.T, Kind: string(l.Kind), Text: l.Text, Why: l.Why, Instances: l.Instances}
}

func dollars(u market.USD) float64 { return float64(u) / float64(market.Dollar) }
