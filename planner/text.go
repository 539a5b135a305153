package planner

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// Width is the number of columns that the text of a plan fits in.
const Width = 100

// Style says what the text looks like.
type Style struct {
	// Color marks chosen pools and warnings; off for files, pipes and NO_COLOR.
	Color bool
	// Speed is market seconds per wall-clock second, to express the expected time in the reader's time; 0 or 1 = they are the same.
	Speed float64
	// Width is that of the terminal; 0, or more than the constant, means the constant.
	Width int
}

// width returns the number of columns.
func (s Style) width() int {
	if s.Width == 0 {
		return Width
	}
	return min(Width, s.Width)
}

// narrow: there is no room for a column of labels.
func (s Style) narrow() bool { return s.width() < 60 }

// labelled adds words next to a label of this many columns; if there is little room, after it.
func (s Style) labelled(b *terminal.Text, columns int, label, words string) {
	if s.narrow() {
		first, blank := "  ", "    "
		if label = strings.Join(strings.Fields(label), " "); label != "" {
			words = label + ": " + words
		} else {
			first = blank // more of the same label
		}
		for _, line := range grid.Wrap(words, s.width()-len(blank)) {
			b.WriteString(first + line + "\n")
			first = blank
		}
		return
	}
	for _, line := range grid.Wrap(words, s.width()-columns) {
		fmt.Fprintf(b, "%-*s%s\n", columns, "  "+label, line)
		label = ""
	}
}

// paragraph adds words, each line indented.
func (s Style) paragraph(b *terminal.Text, indent int, code, words string) {
	blank := strings.Repeat(" ", indent)
	for _, line := range grid.Wrap(words, s.width()-indent) {
		s.paint(b, blank, code, line)
	}
}

// table adds a table, its rows in the colours that code returns.
func (s Style) table(b *terminal.Text, g *grid.Grid, code func(row int) string) {
	g.Indent, g.Width = 2, s.width()
	for _, line := range g.Lines() {
		switch text := terminal.Line(line.Text); {
		case line.Row < 0 || line.Below:
			blank := len(text) - len(strings.TrimLeft(text, " "))
			if line.Row < 0 {
				blank = 0
			}
			s.paint(b, text[:blank], faint, text[blank:])
		case code(line.Row) != "":
			s.paint(b, "", code(line.Row), text)
		default:
			b.WriteString(text + "\n")
		}
	}
}

// How many columns labels need: names alone, and with figures.
const (
	labels  = 20
	figures = 29
)

const (
	bold   = "\x1b[1m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	faint  = "\x1b[2m"
)

// paint adds a line that starts with indent, in a colour if colours are on.
func (s Style) paint(b *terminal.Text, indent, code, text string) {
	if !s.Color {
		code = ""
	}
	b.WriteString(indent)
	b.Paint(code, text)
	b.WriteString("\n")
}

// writePrediction writes the result of the run from the job's own start.
func (p *Plan) writePrediction(b *terminal.Text, s Style) {
	run := p.Prediction
	if run == nil {
		return
	}
	here := ""
	if s.Speed > 1 {
		here = fmt.Sprintf(", about %s here", time.Duration(float64(run.Time)/s.Speed).Round(time.Second))
	}
	b.WriteString("\n")
	s.labelled(b, labels, "From this start", fmt.Sprintf("%s and %.1f h of market time%s: simulated in the recording's own prices, %s",
		run.Cost.Cents(), run.Time.Hours(), here, run.Basis))
	indent := labels
	if s.narrow() {
		indent = 4
	}
	for _, remark := range []string{p.outside(), p.cut()} {
		if remark != "" {
			s.paragraph(b, indent, "", remark)
		}
	}
	for _, step := range run.Skipped {
		s.paragraph(b, indent, "", "Not simulated: "+step)
	}
}

// outside says that the run from the job's own start is not in the range of the past starts, and why.
func (p *Plan) outside() string {
	f, run := p.Forecast, p.Prediction
	where := cmp.Or(side(f.Cost, run.Cost), side(f.Time, run.Time))
	if middle := float64(f.Cost.Middle); where == "" && run.Finished && f.Cost.Known && math.Abs(float64(run.Cost)/middle-1) > differs {
		return fmt.Sprintf("That is within the range, and %+.0f %% from its middle.", 100*(float64(run.Cost)/middle-1))
	}
	if where == "" || !run.Finished {
		return ""
	}
	met := "other prices than the past starts, which the range is of"
	if e := f.Evictions; run.Calm && where == "below" && (!e.Known || e.High > run.Evictions) {
		met = "no evictions but those by prices, as on the fake cloud; the range counts those for capacity too"
	} else if e.Known && e.Low == e.High && run.Evictions != e.High {
		met = fmt.Sprintf("%s, and nine tenths of the past starts met %d", words.Number(run.Evictions, "eviction"), e.High)
	} else if side(e, run.Evictions) != "" {
		met = fmt.Sprintf("%s, and nine tenths of the past starts met %d to %d", words.Number(run.Evictions, "eviction"), e.Low, e.High)
	}
	return fmt.Sprintf("That is %s the range: this start meets %s.", where, met)
}

// side says on which side of a range a figure lies; "" = in it, or the range is unknown.
func side[T cmp.Ordered](r Range[T], figure T) string {
	switch {
	case r.Known && figure < r.Low:
		return "below"
	case r.Known && figure > r.High:
		return "above"
	}
	return ""
}

// cut says which limit would end the run before it is done; "" = none.
func (p *Plan) cut() string {
	switch run := p.Prediction; {
	case run.Finished:
		return ""
	case run.Why == "":
		return "It would fail before it is done."
	default:
		return fmt.Sprintf("It ends then with %.0f %% of the work done: %s.", 100*run.Done, run.Why)
	}
}

// WriteText prints the plan for people.
func (p *Plan) WriteText(w io.Writer, s Style) error {
	var b terminal.Text
	for line := range strings.SplitSeq(p.title(), "\n") {
		s.paragraph(&b, 0, bold, line)
	}
	b.WriteString("\n")
	p.writeAssumed(&b, s)
	p.writeChoice(&b, s)
	p.writePools(&b, s)
	b.WriteString("\n")
	p.writeProgram(&b, s)
	p.writeSizing(&b, s)
	p.writeExpectation(&b, s)
	for _, warning := range p.Warnings {
		b.WriteString("\n")
		s.paragraph(&b, 2, yellow, "Warning: "+warning)
	}
	p.writePrediction(&b, s)
	p.writeWorth(&b, s)
	p.writeSources(&b, s)
	_, err := io.WriteString(terminal.Raw(w), b.String())
	return err
}

// writeAssumed lists the values that the job leaves open.
func (p *Plan) writeAssumed(b *terminal.Text, s Style) {
	label := "Assumed"
	for _, a := range p.Assumed {
		s.labelled(b, labels, label, a.Text)
		label = ""
	}
	if label == "" {
		b.WriteString("\n")
	}
}

// writeSources says where the prices come from, if that is not obvious from the job file.
func (p *Plan) writeSources(b *terminal.Text, s Style) {
	if len(p.Input.Sources) == 0 {
		return
	}
	b.WriteString("\n  Prices are in US dollars per machine and hour.\n")
	for _, source := range p.Input.Sources {
		s.paragraph(b, 2, faint, source)
	}
}

func (p *Plan) title() string {
	in := p.Input
	want := words.Number(in.Want.Machines, "transient machine")
	if in.Want.VCPU > 0 {
		want = fmt.Sprintf("transient machines with %d vCPUs in total", in.Want.VCPU)
	}
	if in.Program != nil {
		return fmt.Sprintf("Plan for %s at %s: a program on %s by policy %s",
			in.Name, in.Now.UTC().Format(timeForm), strings.Replace(want, "transient ", "", 1), in.Policy.Name())
	}
	if in.restarts() {
		return fmt.Sprintf("Plan for %s at %s: %s by policy %s,\nby kill and restart: no reliable machines",
			in.Name, in.Now.UTC().Format(timeForm), strings.Replace(want, "transient ", "", 1), in.Policy.Name())
	}
	if in.onDemand() {
		return fmt.Sprintf("Plan for %s at %s: %s by policy %s,\n%s in %s, $%s an hour each", in.Name, in.Now.UTC().Format(timeForm),
			words.Number(in.Reliable.Count, "machine"), in.Policy.Name(), in.Reliable.Type.Name, in.Reliable.Pool.Zone, in.Reliable.Type.OnDemand)
	}
	if in.Reliable.Count == 0 {
		return fmt.Sprintf("Plan for %s at %s: %s by policy %s,\nand no reliable machine: the most reliable spot machine serves, with checkpoints, or one on demand where there is none",
			in.Name, in.Now.UTC().Format(timeForm), want, in.Policy.Name())
	}
	price := fmt.Sprintf("$%s an hour each", in.Reliable.Type.OnDemand)
	if fees := in.Rules.Terms().Fees; fees.Covers(in.Reliable.Pool) {
		price = fmt.Sprintf("committed at $%s an hour each, paid anyway", fees.CommittedPrice)
	}
	return fmt.Sprintf("Plan for %s at %s: %s by policy %s,\nand %s on demand (%s in %s, %s)",
		in.Name, in.Now.UTC().Format(timeForm), want, in.Policy.Name(),
		words.Number(in.Reliable.Count, "reliable machine"), in.Reliable.Type.Name, in.Reliable.Pool.Zone, price)
}

var header = []string{"", "TYPE", "ZONE", ">SPOT $/H", ">ON-DEMAND", ">SAVING", ">BID $/H", ">MTTF", ">CAPACITY", ">MACHINES"}

const (
	onDemandColumn = 4
	bidColumn      = 6
	capacityColumn = 8
)

func (p *Plan) writePools(b *terminal.Text, s Style) {
	if p.Input.onDemand() {
		writeSpare(b, s, "On demand: ", slices.DeleteFunc(slices.Clone(p.Pools), func(pool Pool) bool { return pool.Pool.Class == market.Spot }))
		return
	}
	var shown, spare []Pool
	onSpot := slices.ContainsFunc(p.Pools, func(pool Pool) bool { return pool.Chosen && pool.Pool.Class == market.Spot })
	noSpot := p.Input.Policy.Name() == (bidding.OnDemand{}).Name()
	for _, pool := range p.Pools {
		if noSpot && pool.Pool.Class == market.Spot {
			continue
		}
		if onSpot && pool.Pool.Class == market.OnDemand && !pool.Chosen { // only its price matters
			spare = append(spare, pool)
		} else {
			shown = append(shown, pool)
		}
	}
	g := &grid.Grid{Head: header, Names: 3, Spare: []int{capacityColumn, onDemandColumn}}
	noBids := !slices.ContainsFunc(p.Pools, func(pool Pool) bool { return pool.Pool.TakesBids() })
	if noBids { // a policy's limit is not sent to the provider
		g.Head, g.Spare = slices.Delete(slices.Clone(header), bidColumn, bidColumn+1), []int{capacityColumn - 1, onDemandColumn}
	}
	for _, pool := range shown {
		cells := pool.cells()
		if noBids {
			cells = slices.Delete(cells, bidColumn, bidColumn+1)
		}
		g.Add(cells...)
		g.Remark(pool.Why)
	}
	s.table(b, g, func(row int) string {
		if shown[row].Chosen {
			return green
		}
		return ""
	})
	writeSpare(b, s, "On demand, while no spot pool can be bought from: ", spare)
	if !slices.ContainsFunc(p.Pools, func(pool Pool) bool { return pool.Chosen }) {
		first := "The run begins on the reliable machines and buys when a pool allows it."
		if p.Input.restarts() {
			first = "The run begins when a pool allows it."
		}
		s.paragraph(b, 2, "", "Nothing is bought at first. "+first)
	}
}

// writeSpare prints on-demand pools, of which only the price matters, in a line of their own, cheapest first, at most four.
func writeSpare(b *terminal.Text, s Style, title string, spare []Pool) {
	if len(spare) == 0 {
		return
	}
	slices.SortStableFunc(spare, func(a, b Pool) int { return cmp.Compare(a.OnDemand, b.OnDemand) })
	var names []string
	for i, pool := range spare {
		if i == 4 {
			names = append(names, fmt.Sprintf("%d more", len(spare)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s in %s at $%s", pool.Pool.Type, pool.Pool.Zone, perHour(pool.OnDemand)))
	}
	s.paragraph(b, 2, faint, title+strings.Join(names, ", ")+".")
}

func (p Pool) cells() []string {
	price, saving, mttf, capacity, mark, machines := "unknown", "", "unknown", "no limit", "", ""
	if p.HasPrice {
		price = perHour(p.Price)
	}
	if share, ok := p.Saving(); ok {
		saving = fmt.Sprintf("%.0f%%", share*100)
	}
	if p.MTTF.Known && (p.ByHints || p.Pool.TakesBids() || p.Pool.Class == market.OnDemand) { // else prices do not show how long machines stay
		mttf = short(p.MTTF.Mean)
		if p.MTTF.Censored {
			mttf = "≥ " + mttf // no crossing was seen
		}
	}
	if p.Limited {
		capacity = fmt.Sprint(p.Capacity)
	}
	if p.Count > 0 {
		machines = fmt.Sprint(p.Count)
	}
	if p.Chosen {
		mark = "✓"
	}
	return []string{
		mark, p.Pool.Type, p.Pool.Zone, price, perHour(p.OnDemand), saving, perHour(p.Bid), mttf, capacity, machines,
	}
}

// perHour formats a price to a hundredth of a cent, as providers print them.
func perHour(price market.USD) string {
	const unit = market.Dollar / 10_000
	rounded := (price + unit/2) / unit
	return fmt.Sprintf("%d.%04d", rounded/10_000, rounded%10_000)
}

func (p *Plan) writeExpectation(b *terminal.Text, s Style) {
	f, o := p.Forecast, p.OnDemand
	line := func(name, value, detail string) {
		s.labelled(b, figures, fmt.Sprintf("%-14s %9s", name, value), detail)
	}
	if f.Cost.Known && f.Time.Known {
		line("Expected cost", f.Cost.Middle.Cents(), rangeText(f.Cost, market.USD.Cents)+savingText(f.Cost.Middle, o.Cost))
		line("Expected time", short(f.Time.Middle), rangeText(f.Time, short)+wallText(f.Time.Middle, s.Speed))
	} else {
		b.WriteString("  Expected cost    unknown\n  Expected time    unknown\n")
	}
	line("On demand", o.Cost.Cents(), fmt.Sprintf("%d x %s for %s, undisturbed: the cheapest suitable fleet",
		o.Fleet.Count, o.Fleet.Type.Name, short(o.Time)))
	if p.Memory.Need.Total() > 0 {
		value, detail := p.Memory.line()
		line("Memory", value, detail)
	}
	if p.Exchange.Bytes > 0 {
		value, detail := p.Exchange.line()
		line("Exchange", value, detail)
	}
	if why, off := strings.CutPrefix(p.Input.Tuning, "not tuned: "); off {
		line("Tuning", "off", why)
	} else if why != "" {
		line("Tuning", "on", why)
	}
	basis := "Cost and time are unknown: " + f.Basis + "."
	if f.Cost.Known {
		basis = "Ranges hold nine tenths of results, by " + f.Basis + f.kept() + "." + p.Own.words()
	}
	s.paragraph(b, 2, faint, basis)
	for _, words := range p.atOdds() {
		s.paragraph(b, 2, "", words)
	}
}

// kept says how many of the forecasts that could have been made at the past starts held.
func (f Forecast) kept() string {
	c, t := f.CostRecord, f.TimeRecord
	if c.Plans == 0 || t.Plans == 0 {
		return "; too few for such ranges to be tried on them"
	}
	return fmt.Sprintf(". Of %d plans like this, made at these starts, %s ended inside by cost, %s by time", c.Plans, c.share(), t.share())
}

func (r Record) share() string { return fmt.Sprintf("%.0f %%", 100*float64(r.Inside)/float64(r.Plans)) }

// differs is the difference from which two figures of one plan need an explanation.
const differs = 0.2

// atOdds says why the forecast differs from the job's earlier result, or from the table of policies.
func (p *Plan) atOdds() (why []string) {
	f := p.Forecast
	if !f.Cost.Known {
		return nil
	}
	if by := f.Level.Today / f.Level.Usual; f.Level.known() && math.Abs(by-1) > differs {
		why = append(why, fmt.Sprintf("Spot prices are %.2g times those of the week before, which the expected cost takes into account.", by))
	}
	if c := p.Choice; c != nil {
		for _, j := range c.Candidates {
			middle := float64(f.Cost.Middle) / float64(market.Dollar)
			if j.Policy == c.Policy && j.Starts > 0 && math.Abs(j.Cost/middle-1) > differs {
				why = append(why, fmt.Sprintf("The table's mean for %s, $%.2f, is of nine weeks at their own prices; %s is expected at today's.",
					j.Policy, j.Cost, f.Cost.Middle.Cents()))
			}
		}
	}
	return why
}

func rangeText[T interface{ market.USD | time.Duration }](r Range[T], form func(T) string) string {
	text := fmt.Sprintf("%s to %s", form(r.Low), form(r.High))
	if r.HighOpen {
		text += " or more"
	}
	return text
}

func savingText(cost, onDemand market.USD) string {
	if onDemand <= 0 || cost >= onDemand {
		return ""
	}
	return fmt.Sprintf("; %.0f%% less than on demand", 100*(1-float64(cost)/float64(onDemand)))
}

func wallText(d time.Duration, speed float64) string {
	if speed == 0 || speed == 1 {
		return ""
	}
	return fmt.Sprintf(" of market time; about %s here, at %gx", short(time.Duration(float64(d)/speed)), speed)
}
