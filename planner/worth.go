package planner

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// Worth compares choices of the job with the next best ones, by simulations from the same past starts.
type Worth struct {
	Starts  int
	Tier    *TierWorth // nil = the job has no reliable tier, or cannot do without
	Waiting *Waiting   // nil = nothing ends sooner, or the job already prefers time
}

// TierWorth compares the reliable tier with kill and restart.
type TierWorth struct {
	With, Without market.USD // means where only prices take machines away
	// From is the number of machine hours per eviction for capacity from which the tier pays off; 0 = it does at no rate tried, and with
	// Always it pays off without evictions.
	From   float64
	Always bool
}

// Waiting is what would end earlier if time were preferred.
type Waiting struct {
	Policy string
	Sooner time.Duration
	More   market.USD
}

// String returns a sentence.
func (t TierWorth) String() string {
	pays := fmt.Sprintf("they pay from one eviction in %.0f machine hours on", t.From)
	switch {
	case t.Always:
		pays = "they pay anyway"
	case t.From == 0:
		pays = "they pay at no rate of evictions that was tried"
	}
	return fmt.Sprintf("without evictions for capacity, %s without the reliable machines (policy checkpoint) and %s with them: %s",
		t.Without.Cents(), t.With.Cents(), pays)
}

// String returns a sentence.
func (w Waiting) String() string {
	return fmt.Sprintf("`prefer: time` ends %s sooner for %s more (policy %s)", short(w.Sooner), w.More.Cents(), w.Policy)
}

// writeWorth adds a line for each choice.
func (p *Plan) writeWorth(b *terminal.Text, s Style) {
	w := p.Worth
	if w == nil || w.Tier == nil && w.Waiting == nil {
		return
	}
	b.WriteString("\n")
	label := "Beside it"
	for _, words := range w.sentences() {
		s.labelled(b, labels, label, words)
		label = ""
	}
}

func (w *Worth) sentences() (out []string) {
	by := fmt.Sprintf("; means of %d past starts", w.Starts)
	if w.Tier != nil {
		out = append(out, w.Tier.String()+by)
	}
	if w.Waiting != nil {
		out = append(out, w.Waiting.String()+by)
	}
	return out
}

func (w *Worth) details() *journal.PlanWorth {
	if w == nil || w.Tier == nil && w.Waiting == nil {
		return nil
	}
	d := &journal.PlanWorth{Starts: w.Starts}
	if t := w.Tier; t != nil {
		d.Tier = &journal.PlanTierWorth{With: t.With.String(), Without: t.Without.String(), From: t.From, Always: t.Always}
	}
	if t := w.Waiting; t != nil {
		d.Waiting = &journal.PlanWaiting{Policy: t.Policy, Seconds: t.Sooner.Seconds(), USD: t.More.String()}
	}
	return d
}
