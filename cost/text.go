package cost

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
)

// textWidth is the maximum width of the plain report.
const textWidth = 100

// WriteText renders the report for a terminal or a log, without colours, at most 100 columns wide, or width if that is less and not 0.
func (r *Report) WriteText(w io.Writer, width int) error {
	t := newText(w, width, textWidth)
	t.head(r)
	t.totals(r)
	t.trials(r)
	t.pools(r)
	t.instances(r)
	t.waste(r)
	t.progress(r)
	t.serving(r)
	t.events(r)
	t.notes(r)
	return t.err
}

// WriteSummary renders a report for one screen: WriteText without single machines and events.
func (r *Report) WriteSummary(w io.Writer, width int) error {
	t := newText(w, width, textWidth)
	t.head(r)
	t.totals(r)
	t.trials(r)
	t.pools(r)
	t.waste(r)
	t.progress(r)
	t.notes(r)
	return t.err
}

// text keeps the first error, so that callers need not check each line.
type text struct {
	w     io.Writer
	width int
	err   error
}

// newText returns a text with lines of at most width and most columns; width 0 means most.
func newText(w io.Writer, width, most int) *text {
	if width == 0 {
		width = most
	}
	return &text{w: w, width: min(width, most)}
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

func (t *text) table(title string, g *grid.Grid) {
	if g.Rows() == 0 {
		return
	}
	if title != "" {
		t.line("\n%s", title)
	}
	g.Indent, g.Cut, g.Width = 2, 24, t.width
	if t.err == nil {
		_, t.err = io.WriteString(t.w, g.String())
	}
}

// wrapped writes words in lines that fit; later lines are indented by the width of indent.
func (t *text) wrapped(indent, s string) {
	for _, line := range grid.Wrap(s, t.width-utf8.RuneCountInString(indent)) {
		t.line("%s%s", indent, line)
		indent = strings.Repeat(" ", utf8.RuneCountInString(indent))
	}
}

// indented writes an indented sentence.
func (t *text) indented(format string, args ...any) { t.wrapped("  ", fmt.Sprintf(format, args...)) }

func (t *text) head(r *Report) {
	t.line("%s: %s", r.Run.Name, r.Run.Outcome)
	wall := time.Duration(r.Run.Seconds / r.Run.Speed * float64(time.Second)).Round(time.Second)
	t.indented("%s to %s market time (%s, %s by the wall clock)", clockTime(r.Run.Began),
		clockTime(r.Run.AsOf), words.Duration(r.Run.Seconds), wall)
	t.failure(r.Failure)
	t.indented("rules %s, seed %d, tierml %s", r.Run.Rules, r.Run.Seed, r.Run.Version)
	if !r.Run.Finished {
		t.indented("The journal has no last line: the run is running or was killed. Machines without an end are counted as running, with what is due, as of %s.",
			clockTime(r.Run.AsOf))
	}
	if r.Training.TestLoss != nil {
		t.indented("%s %s: test %.4f, %s", r.Run.App, r.Run.Metric, *r.Training.TestLoss, words.Number(r.Training.Clocks, "clock"))
	}
	if q := r.Training.Quality; q != nil {
		t.indented("accuracy %.4g on %d held-out examples; %s", q.Accuracy, q.Examples, q)
	}
	if r.Programs != nil {
		t.indented("%s", r.Programs.words())
	}
	if r.Run.Model != "" {
		t.indented("model: %s", r.Run.Model)
	}
}

// failure describes what failed and where, its last output, and what was lost.
func (t *text) failure(f *Failure) {
	if f == nil {
		return
	}
	t.indented("%s", f.Why)
	if m := f.Member; m != nil {
		t.indented("%s", m.Place())
	}
	for line := range strings.SplitSeq(strings.TrimRight(f.Output, "\n"), "\n") {
		if f.Output != "" {
			t.line("  | %s", line)
		}
	}
	t.indented("lost: %s", f.Lost)
}

func (t *text) totals(r *Report) {
	tab := &grid.Grid{Head: []string{"", ">US$", ""}}
	tab.Add("spot machines", money(r.Totals.Spot), fmt.Sprintf("%.1f machine hours of all kinds, %s",
		r.Totals.MachineHours, words.Number(r.Totals.Evictions, "eviction")))
	tab.Add("reliable machines", money(r.Totals.OnDemand), "")
	if c := r.Totals.Committed; c > 0 {
		tab.Add("committed", money(c), "paid anyway, for reliable machines; not in the total")
	}
	if m := r.Totals.Moved; m > 0 {
		tab.Add("of these, for moves", money(m), "of state between regions")
	}
	tab.Add("total", money(r.Totals.Total), "exactly $"+r.Totals.Total.String())
	if e := r.Equivalent; e != nil {
		what := fmt.Sprintf("the undisturbed work: %.2f h on %d x %s", e.Hours, e.Count, words.Type(e.Pool))
		if r.Programs != nil {
			what += ", as billed"
		}
		tab.Add("on-demand equivalent", money(e.USD), what)
		if e.USD > 0 {
			tab.Add("saving", money(r.Totals.Saving), fmt.Sprintf("%.1f %%", r.Totals.SavingPercent))
		}
	}
	tab.Add("same machines on demand", money(r.Totals.SameMachines), "their own hours at the on-demand price")
	t.table("Cost", tab)
}

func (t *text) pools(r *Report) {
	tab := &grid.Grid{Head: []string{"pool", ">count", ">evicted", ">hours", ">free", ">US$", ">US$/h", ">on demand", ">saving"}}
	for _, p := range r.Pools {
		tab.Add(words.Pool(p.Pool), fmt.Sprint(p.Machines), fmt.Sprint(p.Evicted), fmt.Sprintf("%.2f", p.Hours),
			fmt.Sprintf("%.2f", p.FreeHours), money(p.USD), p.PerHourText(), p.OnDemand.String(),
			p.SavingText())
	}
	t.table("Pools", tab)
	if len(r.Run.ZoneIDs) > 0 {
		var ids []string
		for _, zone := range slices.Sorted(maps.Keys(r.Run.ZoneIDs)) {
			ids = append(ids, zone+" is "+r.Run.ZoneIDs[zone])
		}
		t.wrapped("Zones by their ids: ", strings.Join(ids, ", "))
	}
}

// short reports whether machines ran for only a part of what is billed as a whole.
func (p Pool) short() bool { return p.PerHour > 2*dollars(p.OnDemand) }

// PerHourText omits the price per hour if only minutes of billed hours were used.
func (p Pool) PerHourText() string {
	if p.short() {
		return "-"
	}
	return fmt.Sprintf("%.4f", p.PerHour)
}

// SavingText omits on-demand machines, whose cost can exceed their price when whole hours are billed.
func (p Pool) SavingText() string {
	if p.short() || strings.HasSuffix(p.Pool, "/"+string(market.OnDemand)) {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*p.Saving)
}

func (t *text) instances(r *Report) {
	for _, p := range r.Pools {
		tab := &grid.Grid{Head: []string{"machine", "launched", ">hours", ">US$", "end", "why"}}
		for _, i := range r.Instances {
			if i.Pool == p.Pool {
				tab.Add(i.ID, i.Launched.UTC().Format("01-02 15:04:05"), fmt.Sprintf("%.2f", i.Hours), money(i.USD), shortFate(i.Fate), i.Why)
			}
		}
		t.table("Machines of "+words.Pool(p.Pool), tab)
	}
}

// shortFate shortens a fate, to leave room for the reason.
func shortFate(fate string) string {
	if fate == "evicted without warning" {
		return "taken"
	}
	return fate
}

func (t *text) waste(r *Report) {
	tab := &grid.Grid{Head: []string{"", ">machine hours", ">US$", ""}}
	for _, row := range r.Waste.Rows() {
		hours := ""
		if row.Seconds > 0 {
			hours = fmt.Sprintf("%.2f", row.Seconds/3600)
		}
		tab.Add(row.Name, hours, money(row.USD), row.Meaning)
	}
	t.table("Where time and money went", tab)
}

// WasteRow is one row of the waste split as displayed. Use is the row's name in JSON, which pages use to choose a colour.
type WasteRow struct {
	Part
	Use, Name, Meaning string
}

// Rows lists the split in reading order.
func (w Waste) Rows() []WasteRow {
	if w.Programs {
		return []WasteRow{
			{w.Working, "working", "saved work", "programs ran, and what they did counts"},
			{w.Redone, "redone", "redone work", "after the last saved state before a loss or a failure: to be done again"},
			{w.Startup, "startup", "start-up", "from launch until the first program was given"},
			{w.Setup, "setup", "setup", "running the setup script"},
			{w.Restore, "restore", "restore", "fetching the workdir and the state"},
			{w.Flush, "flush", "flush", "after an eviction notice, with the program ended"},
			{w.Idle, "idle", "idle", "without a program: others were waited for, or it failed"},
			{w.AfterEnd, "after_end", "beyond the end", "rest of a paid hour, or a minimum"},
			{w.Free, "free", "free", "not billed under the rules; part of the rows above"},
		}
	}
	unit := "clocks"
	if w.Rounds {
		unit = "rounds"
	}
	return []WasteRow{
		{w.Working, "working", "working", unit + " done for the first time"},
		{w.Redone, "redone", "redone work", unit + " done again after a roll-back"},
		{w.Startup, "startup", "start-up idle", "from launch to join"},
		{w.Flush, "flush", "flush", "from eviction notice to leave"},
		{w.Idle, "idle", "out of training", "failed, or left and not yet ended"},
		{w.AfterEnd, "after_end", "beyond the end", "rest of a paid hour, or a minimum"},
		{w.Free, "free", "free", "not billed under the rules; part of the rows above"},
	}
}

func (t *text) progress(r *Report) {
	tab := &grid.Grid{Head: []string{"", ">US$", ">clock", ">after", ""}}
	if v := r.Progress.PerClock; v != nil {
		tab.Add("per clock", fmt.Sprintf("%.4f", *v), "", "", "")
	}
	if v := r.Progress.PerEpoch; v != nil {
		tab.Add("per epoch", fmt.Sprintf("%.4f", *v), "", "", "")
	}
	for _, u := range r.Progress.Until {
		tab.Add(fmt.Sprintf("until test %s %.4f", r.Run.Metric, u.Loss), fmt.Sprintf("%.2f", u.USD), fmt.Sprint(u.Clock),
			words.Duration(u.Seconds), u.Note)
	}
	t.table("Price of progress", tab)
}

func (t *text) serving(r *Report) {
	if s := r.Training.Serving; s != nil {
		t.line("")
		t.wrapped("", fmt.Sprintf("Serving the model took %.3f of a core: %.2f ms in a clock of %.0f ms, as of clock %d", s.Cores, 1000*s.Seconds, 1000*s.ClockSeconds, s.Clock))
	}
}

func (t *text) events(r *Report) {
	if len(r.Events) == 0 {
		return
	}
	t.line("\nEvents")
	for _, e := range r.Events {
		t.wrapped("  "+e.T.UTC().Format("01-02 15:04:05")+"  ", e.String())
	}
}

func (t *text) notes(r *Report) {
	if r.Supplement == nil && r.Reconciliation == nil && len(r.Warnings) == 0 {
		return
	}
	t.line("\nChecks")
	if r.Supplement != nil {
		t.wrapped("  ", r.Supplement.String())
	}
	if r.Reconciliation != nil {
		for s := range strings.SplitSeq(r.Reconciliation.String(), "\n") {
			t.wrapped("  ", s)
		}
	}
	for _, s := range r.Warnings {
		t.wrapped("  warning: ", s)
	}
}

// money returns dollars and cents without the dollar sign.
func money(u market.USD) string { return strings.Replace(u.Cents(), "$", "", 1) }

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
