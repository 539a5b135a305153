package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Trial is a task of a sweep.
type Trial struct {
	Task     int               `json:"task"`
	Settings map[string]string `json:"settings"`
	Outcome  string            `json:"outcome"` // done, dropped, failed, or open: undecided when the run ended
	Step     int64             `json:"step,omitempty"`
	Loss     *float64          `json:"loss,omitempty"` // the last; absent = none reported, or not a number
	Why      string            `json:"why,omitempty"`  // why it was dropped or has failed
	Attempts int               `json:"attempts"`
	Hours    float64           `json:"hours"` // of machines, including setup and restore
	USD      market.USD        `json:"usd"`   // its share of their bills: what was paid while nothing ran belongs to no trial
	Losses   []LossPoint       `json:"losses,omitempty"`
}

// Name is its task's name.
func (t *Trial) Name() string { return fmt.Sprintf("task-%d", t.Task) }

// trialsOf lists a sweep's trials that have started, the best first.
func (l *Ledger) trialsOf(bills []bill, asOf time.Time) (out []Trial) {
	p := &l.programs
	byKey := map[string]*Trial{}
	for _, a := range p.attempts {
		t := byKey[a.program]
		if t == nil {
			t = &Trial{Step: p.steps[a.program], Outcome: "open"}
			fmt.Sscanf(a.program, "task-%d", &t.Task)
			if f := p.members[a.program]; f != nil {
				t.Settings, t.Loss = f.settings, f.loss
				if f.dropped != "" {
					t.Outcome, t.Why = Dropped, f.dropped
				}
			}
			byKey[a.program] = t
		}
		t.Attempts++
		switch {
		case p.newest[a.program] != a:
		case a.outcome == journal.Finished:
			t.Outcome = "done"
		case a.outcome == journal.Failure:
			t.Outcome, t.Why = "failed", p.members[a.program].why
		}
	}
	shares := map[*Trial][]billed{}
	for _, b := range bills {
		for _, u := range p.uses(b.machine, asOf) {
			t := byKey[u.program]
			if t == nil {
				continue
			}
			t.Hours += u.overlap(b.life(asOf)).Hours()
			for _, c := range b.charges {
				paid := interval{c.From, c.To}
				share := fraction(c.Amount, u.overlap(paid), paid.length())
				t.USD += share
				if share > 0 {
					shares[t] = append(shares[t], billed{u.interval.common(paid), share})
				}
			}
		}
	}
	for key, t := range byKey {
		for _, l := range p.members[key].losses {
			paid := 0.0
			for _, s := range shares[t] {
				paid += dollars(fraction(s.usd, interval{s.from, l.at}.common(s.interval).length(), s.length()))
			}
			t.Losses = append(t.Losses, LossPoint{Clock: l.clock, At: l.at, USD: paid, Train: l.train, Redone: l.redone})
		}
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), compareLoss(a.Loss, b.Loss), cmp.Compare(a.Task, b.Task))
	})
	return out
}

// rank orders outcomes.
func (t *Trial) rank() int {
	return slices.Index([]string{"done", "open", "dropped", "failed"}, t.Outcome)
}

func compareLoss(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

// Best returns the trial with the lowest loss among those that progressed farthest; nil = none has a loss.
func (p *Programs) Best() *Trial {
	if len(p.Trials) == 0 || p.Trials[0].Loss == nil {
		return nil
	}
	return &p.Trials[0]
}

// NoLoss explains how trials report a loss.
const NoLoss = "no trial has reported a loss: call tierml.progress(step, loss), or write progress.line with two groups"

// TrialsTitle is the heading of a list of trials.
func (p *Programs) TrialsTitle() string {
	if p.Best() == nil {
		return "Trials; " + NoLoss
	}
	return "Trials, the best first"
}

// billed is what was paid for a period.
type billed struct {
	interval
	usd market.USD
}

// Words returns its settings.
func (t *Trial) Words() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t.Settings)) {
		all = append(all, name+"="+t.Settings[name])
	}
	return strings.Join(all, " ")
}

// trials lists the best of a sweep.
func (t *text) trials(r *Report) {
	if r.Programs == nil || len(r.Programs.Trials) == 0 {
		return
	}
	tab := &grid.Grid{Head: []string{"trial", ">loss", ">step", "", ">hours", ">US$", "settings"}}
	const most = 12
	all := r.Programs.Trials
	for _, trial := range all[:min(len(all), most)] {
		loss := "-"
		if trial.Loss != nil {
			loss = fmt.Sprintf("%.5g", *trial.Loss)
		}
		tab.Add(trial.Name(), loss, fmt.Sprint(trial.Step), trial.Outcome, fmt.Sprintf("%.2f", trial.Hours), fmt.Sprintf("%.4f", dollars(trial.USD)), trial.Words())
	}
	title := r.Programs.TrialsTitle()
	if len(all) > most {
		title += fmt.Sprintf(" (%d of %d; -o json has all)", most, len(all))
	}
	t.table(title, tab)
}
