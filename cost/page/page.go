// Package page renders a cost.Report as one self-contained HTML file: no network, no external script, no
// font. It supports light and dark mode, wide and narrow screens, keyboards and screen readers; each
// chart has a table next to it. It computes nothing: package cost does.
package page

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

//go:embed page.html
var pageText string

// Style is the style sheet of the pages.
//
//go:embed style.css
var Style string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Funcs(functions).Parse(pageText)) })

var functions = template.FuncMap{
	"cents":  market.USD.Cents,
	"fine":   func(v market.USD) string { return fmt.Sprintf("$%.4f", float64(v)/float64(market.Dollar)) },
	"pool":   words.Pool,
	"kind":   words.Type,
	"length": words.Duration,
	"stamp":  Stamp,
	"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"hhmmss": func(t time.Time) string { return t.UTC().Format("Jan 2 15:04:05") },
	"fixed":  func(digits int, v float64) string { return fmt.Sprintf("%.*f", digits, v) },
	"hours":  func(seconds float64) string { return fmt.Sprintf("%.2f", seconds/3600) },
	"deref":  func(v *float64) float64 { return *v },
	"metric": metricWord,
	"size":   progress.Size,
	"sub":    func(a, b int) int { return a - b },
	"number": words.Number,
	"ended":  words.Ended,
	"title":  title,
	"saving": func(v market.USD) string {
		if v < 0 {
			return (-v).Cents() + " more"
		}
		return v.Cents() + " less"
	},
	"dict": dict,
	"wall": func(r cost.Run) string {
		return time.Duration(r.Seconds / r.Speed * float64(time.Second)).Round(time.Second).String()
	},
}

// Live is a dashboard page's addition to a run's report: the run's present state. A script replaces the
// page's content every Refresh; without scripts the page does not update.
type Live struct {
	Runs    string // link to the list of runs
	Refresh time.Duration
	Name    string // of the run's directory
	Running bool   // including waiting and paused; otherwise it has ended, or was killed
	Scales  bool   // the number of its workers can change: only for runs with a reliable tier

	Stage         string // empty before the first
	Clock, Clocks int64  // of all; Clocks is 0 if the job sets no number
	ClockSeconds  float64
	Left          string // clocks to the job's target, in words; empty = no estimate
	PerHour       market.USD
	Share         bool // the total is the run's share of shared hosts, not the hours that its slots have begun
	// The run's expected cost and duration, in words; empty = unknown.
	CostLater, TimeLeft, TimeNotes string
	Resume                         string // the command that resumes it; empty = none
	Budget                         string // in words; empty = no limits
	Granted                        string // a scheduler's reason for the run's number of machines; empty = no scheduler
	Fleet                          []Fleet
	Events                         string // link to all events, with a filter
	Logs                           string // link to the logs
	Files                          []File
	Output                         *Output // of a program; nil = none
	Acts                           *Acts   // nil = the page is read-only
}

// Output is the end of a rank's or task's output.
type Output struct {
	Of, Link string // Link leads to the whole log
	Text     string
}

// Acts are the actions that a page offers for its run.
type Acts struct {
	Link               string // target of the forms
	Scale, Stop, Drill bool
	// For a run that has Ended. Archived: the list omits it.
	Ended, Archived, Delete bool
}

// File is one of the run's files.
type File struct {
	Name, What string
	Link       string // empty = not served here
	Bytes      int64
}

// Machines returns how many machines take part, and how many are starting.
func (l Live) Machines() (n Fleet) {
	for _, f := range l.Fleet {
		n.Joined += f.Joined
		n.Starting += f.Starting
	}
	return n
}

// Replicas counts the machines that train replicas: reliable ones only hold the model while there are others.
func (l Live) Replicas() (n Fleet) {
	alone := !slices.ContainsFunc(l.Fleet, func(f Fleet) bool { return f.Tier != "reliable" && f.Joined+f.Starting > 0 })
	for _, f := range l.Fleet {
		if alone || f.Tier != "reliable" {
			n.Joined += f.Joined
			n.Starting += f.Starting
		}
	}
	return n
}

// InTraining describes how many machines of each tier take part.
func (l Live) InTraining() string {
	count := map[string]int{}
	for _, f := range l.Fleet {
		count[f.Tier] += f.Joined
	}
	return fmt.Sprintf("%d reliable and %d transient in training", count["reliable"], count["transient"])
}

// Fleet is a group of a pool's machines that were bought alike.
type Fleet struct {
	Tier, Pool, Price, Bid    string // Bid is empty on demand
	Joined, Starting, Leaving int
}

// Stamp formats a time for people, in UTC.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// dict returns a map of names and values, for nested templates.
func dict(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out
}

// metricWord writes a metric's name in the middle of a title: "RMSE", but "loss".
func metricWord(name string) string {
	if name == "loss" {
		return name
	}
	return strings.ToUpper(name)
}

// title capitalises the first letter.
func title(words string) string { return strings.ToUpper(words[:1]) + words[1:] }

// view is the template's input.
type view struct {
	*cost.Report
	Live   *Live
	Script template.JS
	Style  template.CSS
	Charts []figure
	Bar    []share
	limits limits
}

// Long reports whether the page has so many lines that it is slow to lay out as a whole.
func (v view) Long() bool {
	return min(len(v.Events), v.limits.events)+min(len(v.Instances), v.limits.machines)+min(len(v.Decisions), v.limits.decisions) > 1000
}

// Bids reports whether any machine was bought with a bid, or may be: some providers have none.
func (v view) Bids() bool {
	return slices.ContainsFunc(v.Instances, func(i cost.Instance) bool { return i.Bid > 0 }) ||
		v.Live != nil && (slices.ContainsFunc(v.Live.Fleet, func(f Fleet) bool { return f.Bid != "" }) ||
			slices.ContainsFunc(v.Decisions, func(d cost.Decision) bool {
				return slices.ContainsFunc(d.Options, func(o cost.Option) bool { return o.Bid > 0 && !strings.HasSuffix(o.Pool, "/on-demand") })
			}))
}

// Latest returns the latest events, newest first, for the page of a run that is in progress or was cut short.
func (v view) Latest() []event {
	if v.Live == nil || v.Run.Finished {
		return nil
	}
	shown := v.ShownEvents()
	shown = shown[:min(len(shown), 2)]
	for i := range shown {
		shown[i].ID = "latest-" + shown[i].ID // the full list has it, too
	}
	return shown
}

// Loss returns the last loss of a single program or a gang; nil if there is none or it is not a number.
func (v view) Loss() *float64 {
	if v.Programs == nil || v.Programs.Tasks > 0 {
		return nil
	}
	if len(v.Programs.Members) == 1 {
		return v.Programs.Members[0].Loss
	}
	return lastLoss(v.Series.Loss) // a gang has one loss, which the journal records for the rank that reports it
}

// EachSteps reports whether each rank or task has a step and a loss of its own: a gang has one of each.
func (v view) EachSteps() bool {
	return v.Programs.Tasks > 0 || len(v.Programs.Members) == 1
}

// Unwarned returns how many machines the provider took without a notice, or lost: they are no evictions, which have one.
func (v view) Unwarned() (n int) {
	for _, i := range v.Instances {
		if i.Ended != nil && i.EndedBy == string(market.ByProvider) {
			n++
		}
	}
	return max(n-v.Totals.Evictions, 0)
}

// Unit returns the run's unit of progress.
func (v view) Unit() string { return journal.Unit(v.Run.Kind) }

// Members returns the word for the run's programs.
func (v view) Members() string {
	switch v.Run.Kind {
	case journal.Sweep:
		return "Trials"
	case journal.Array:
		return "Tasks"
	}
	return "Ranks"
}

// Shared reports whether the run consists of machines that jobs share: it does no work of its own.
func (v view) Shared() bool { return v.Run.Kind == journal.Hosts }

// At returns the word for working machines.
func (v view) At() string {
	if v.Programs == nil && !v.Shared() {
		return "in training"
	}
	return "working"
}

// limits bound what a page shows of a long run; the JSON report is complete.
type limits struct{ events, machines, decisions, rows int }

var (
	whole  = limits{events: 5000, machines: 2000, decisions: 200, rows: 400}
	livish = limits{events: 100, machines: 100, decisions: 20, rows: 100} // it is sent repeatedly
)

// decision and event have an id if a script redraws the page, which identifies them.
type decision struct {
	cost.Decision
	ID string
}

type event struct {
	cost.Event
	ID string
}

// ShownDecisions returns the newest decisions, newest first.
func (v view) ShownDecisions() (out []decision) {
	for i := len(v.Decisions) - 1; i >= max(0, len(v.Decisions)-v.limits.decisions); i-- {
		out = append(out, decision{v.Decisions[i], fmt.Sprintf("decision-%d", i+1)})
	}
	return out
}

// ShownEvents returns the events: in order in a report, newest first on a live page.
func (v view) ShownEvents() (out []event) {
	first := max(0, len(v.Events)-v.limits.events)
	for i, e := range v.Events[first:] {
		out = append(out, event{Event: e})
		if v.Live != nil {
			out[i].ID = fmt.Sprintf("event-%d", first+i+1)
		}
	}
	if v.Live != nil {
		slices.Reverse(out)
	}
	return out
}

// ShownMachines returns the running machines and the newest others, in launch order.
func (v view) ShownMachines() []cost.Instance {
	left := v.limits.machines - len(v.Instances)
	if left >= 0 {
		return v.Instances
	}
	var out []cost.Instance
	for _, i := range v.Instances {
		if i.Ended != nil && left < 0 {
			left++
			continue
		}
		out = append(out, i)
	}
	return out
}

// ShownMembers returns a program's ranks or tasks, by number; if there are too many, those that failed, were lost or
// are running have priority.
func (v view) ShownMembers() []cost.Member {
	if len(v.Programs.Members) <= v.limits.rows {
		return v.Programs.Members
	}
	order := map[string]int{journal.Failure: -3, journal.Lost: -2, cost.Running: -1}
	out := slices.Clone(v.Programs.Members)
	slices.SortStableFunc(out, func(a, b cost.Member) int { return cmp.Compare(order[a.State], order[b.State]) })
	return out[:v.limits.rows]
}

// figure is a chart in two sizes, of which the style sheet shows the one that fits.
type figure struct {
	Title, Describe string
	Wide, Narrow    template.HTML
	Legend          []key
	Table           template.HTML
	Half            bool // two fit in a row if there is room
}

// key is an entry of a legend.
type key struct {
	Name, Class string
}

// share is a part of the waste bar.
type share struct {
	Name, Class   string
	From, Percent float64
}

// LiveScript replaces the content of a page every data-refresh milliseconds of its main element.
//
//go:embed live.js
var LiveScript string

// Write renders the report.
func Write(w io.Writer, r *cost.Report) error { return WriteLive(w, r, nil) }

// WriteLive renders the report of a running run; if live is nil, it is Write.
func WriteLive(w io.Writer, r *cost.Report, live *Live) error {
	v := view{Report: r, Live: live, Style: template.CSS(Style), Bar: wasteBar(r.Waste)} //nolint:gosec // our own file
	if v.limits = whole; live != nil {
		v.limits = livish
		v.Script = template.JS(LiveScript) //nolint:gosec // our own file
	}
	if r.Programs != nil && len(r.Programs.Trials) > 0 {
		v.addTrials(r.Programs.Trials)
	}
	overTime, overDollars := lossCharts(r)
	loss := func() {
		v.addFigure("loss", overTime, false, lossTable(r, v.limits.rows))
		v.addFigure("dollars", overDollars, false, "")
	}
	if r.Programs != nil { // a program's progress comes before its machines' costs
		loss()
	}
	v.addFigure("price", priceChart(r), true, priceTable(r, v.limits.rows))
	v.addFigure("machines", machineChart(r), true, machineTable(r, v.limits.rows))
	if r.Programs == nil {
		loss()
	}
	v.addFigure("settings", settingsChart(r), true, settingsTable(r, v.limits.rows))
	v.addFigure("pace", paceChart(r), false, "")
	v.addFigure("improvement", improvementChart(r), false, "")
	var b bytes.Buffer // so that an error leaves no partial page
	if err := page().Execute(&b, v); err != nil {
		return fmt.Errorf("rendering the report: %w", err)
	}
	if _, err := w.Write(Clean(b.Bytes())); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// addTrials adds the charts of a sweep.
func (v *view) addTrials(trials []cost.Trial) {
	best := ""
	if t := v.Best(); t != nil {
		best = t.Name()
	}
	var all []Curve
	for _, t := range slices.Backward(trials) { // the best is drawn last, on top
		all = append(all, Curve{t.Name(), t.Losses})
	}
	for i, c := range append(settingCharts(v.Run.Metric, trials, best), trialCharts(v.Run.Metric, "step", all, best)...) {
		v.addFigure(fmt.Sprintf("trials-%d", i), c, false, "")
	}
}

// Columns returns the names of the trials' settings.
func (v view) Columns() []string {
	names := map[string]bool{}
	for _, t := range v.Programs.Trials {
		for name := range t.Settings {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ShownTrials returns the best trials.
func (v view) ShownTrials() []cost.Trial {
	return v.Programs.Trials[:min(len(v.Programs.Trials), v.limits.rows)]
}

// Best returns the trial with the lowest loss; nil = there is none yet.
func (v view) Best() *cost.Trial {
	if v.Programs == nil {
		return nil
	}
	return v.Programs.Best()
}

// Clean escapes what no page may contain: control characters, and those that reorder text.
func Clean(text []byte) []byte { return []byte(terminal.Clean(string(text))) }

func (v *view) addFigure(id string, c chart, full bool, table template.HTML) {
	if c.empty() {
		return
	}
	f := figure{Title: c.title, Describe: c.describe, Table: table, Half: !full}
	width := 1040.0
	if !full {
		width = 510
	}
	f.Wide = c.svg(id+"-wide", "wide", width, 300)
	f.Narrow = c.svg(id+"-narrow", "narrow", 340, 260)
	f.Legend = c.legend()
	if id == "price" && v.Bids() {
		f.Legend = append(f.Legend, key{"bid while held", "dash"})
	}
	if id == "price" {
		f.Legend = append(f.Legend, key{"launch", "sign launch"}, key{"notice", "sign notice"}, key{"eviction", "sign evicted"})
	}
	if id == "machines" {
		if len(c.marks) > 0 {
			f.Legend = append(f.Legend, key{"eviction or failure", "sign evicted"})
		}
		if len(c.rules) > 0 {
			f.Legend = append(f.Legend, key{"roll-back", "vertical rollback"})
		}
	} else if len(c.rules) > 0 {
		f.Legend = append(f.Legend, key{"eviction", "vertical evicted"}, key{"roll-back", "vertical rollback"})
	}
	v.Charts = append(v.Charts, f)
}

// wasteBar returns each kind of time's share of the dollars.
func wasteBar(w cost.Waste) []share {
	rows := w.Rows()
	rows = rows[:len(rows)-1] // free time is not paid
	var total market.USD
	for _, row := range rows {
		total += row.USD
	}
	var out []share
	from := 0.0
	for _, row := range rows {
		if total > 0 && row.USD > 0 {
			percent := 100 * float64(row.USD) / float64(total)
			out = append(out, share{row.Name, "use-" + row.Use, from, percent})
			from += percent
		}
	}
	return out
}

// dataTable returns a plain table of the newest rows; cells are text.
func dataTable(head []string, rows [][]string, most int) template.HTML {
	var b strings.Builder
	b.WriteString("<table><thead><tr>")
	for _, h := range head {
		fmt.Fprintf(&b, `<th scope="col">%s</th>`, esc(h))
	}
	b.WriteString("</tr></thead><tbody>")
	if earlier := len(rows) - most; earlier > 0 {
		fmt.Fprintf(&b, `<tr><td colspan="%d">%d earlier rows are in the JSON report</td></tr>`, len(head), earlier)
		rows = rows[earlier:]
	}
	for _, row := range rows {
		b.WriteString("<tr>")
		for _, cell := range row {
			fmt.Fprintf(&b, "<td>%s</td>", esc(cell))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	return template.HTML(b.String()) //nolint:gosec // every text in it went through esc
}

func priceTable(r *cost.Report, most int) template.HTML {
	var rows [][]string
	each := max(1, most/max(1, len(r.Series.Prices)))
	for _, s := range r.Series.Prices {
		if earlier := len(s.Steps) - each; earlier > 0 {
			rows = append(rows, []string{words.Pool(s.Pool), fmt.Sprintf("%d earlier prices are in the JSON report", earlier), ""})
			s.Steps = s.Steps[earlier:]
		}
		for _, p := range s.Steps {
			rows = append(rows, []string{words.Pool(s.Pool), p.At.UTC().Format("Jan 2 15:04:05"), fmt.Sprintf("%.4f", p.USD)})
		}
	}
	return dataTable([]string{"pool", "from", "US$ per hour"}, rows, len(rows))
}

func machineTable(r *cost.Report, most int) template.HTML {
	var rows [][]string
	for _, s := range r.Series.Machines {
		var pools []string
		for _, p := range s.Pools {
			pools = append(pools, fmt.Sprintf("%d %s", p.Count, words.Pool(p.Pool)))
		}
		rows = append(rows, []string{s.At.UTC().Format("Jan 2 15:04:05"), fmt.Sprint(s.Transient), fmt.Sprint(s.Reliable), s.Stage, strings.Join(pools, ", ")})
	}
	return dataTable([]string{"from", "transient", "reliable", "stage", "pools"}, rows, most)
}

func lossTable(r *cost.Report, most int) template.HTML {
	value := func(v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf("%.4f", *v)
	}
	var rows [][]string
	for _, p := range r.Series.Loss {
		redone := ""
		if p.Redone {
			redone = "redone"
		}
		if p.Test == nil && !p.Redone && r.Programs == nil { // readers compare held-out losses; the chart has the others
			continue
		}
		rows = append(rows, []string{fmt.Sprint(p.Clock), p.At.UTC().Format("Jan 2 15:04:05"), fmt.Sprintf("%.2f", p.USD), value(p.Train), value(p.Test), redone})
	}
	return dataTable([]string{LossUnit(r), "time", "US$ paid", "training", "test", "note"}, rows, most)
}
