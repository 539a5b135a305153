package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
)

// comparedAtOnce is the maximum number of runs side by side.
const comparedAtOnce = 8

// compareView is the data of compare.html.
type compareView struct {
	frame
	Runs   []cost.Named
	Rows   []comparedRow // the figures, then the settings that differ
	Charts []page.Drawing
	JSON   string
	Note   string // why the runs are not comparable
}

// comparedRow is a figure or a setting of each run.
type comparedRow struct {
	Name    string
	Setting bool
	Values  []string
}

// figures are the figures by which runs are compared, in order.
var figures = []struct {
	name string
	of   func(r *cost.Report) string
}{
	{"kind", func(r *cost.Report) string { return r.Run.Kind }},
	{"state", func(r *cost.Report) string { return r.Run.Outcome }},
	{"cost", func(r *cost.Report) string {
		if r.Run.Replayed {
			return r.Totals.Total.Cents() + ", replayed"
		}
		return r.Totals.Total.Cents()
	}},
	{"on demand", func(r *cost.Report) string {
		if r.Equivalent == nil {
			return ""
		}
		return r.Equivalent.USD.Cents()
	}},
	{"market time", func(r *cost.Report) string { return words.Duration(r.Run.Seconds) }},
	{"by the wall clock", func(r *cost.Report) string { return words.Duration(r.Run.Seconds / r.Run.Speed) }},
	{"machine hours", func(r *cost.Report) string { return fmt.Sprintf("%.2f", r.Totals.MachineHours) }},
	{"evictions", func(r *cost.Report) string { return fmt.Sprint(r.Totals.Evictions) }},
	{"done", func(r *cost.Report) string {
		unit := journal.Unit(r.Run.Kind)
		switch p := r.Programs; {
		case p == nil:
			return words.Number(r.Training.Clocks, unit)
		case p.Tasks > 0:
			return fmt.Sprintf("%d of %s", p.Done, words.Number(p.Tasks, unit))
		default:
			return words.Number(int(p.Step), unit)
		}
	}},
	{"loss", func(r *cost.Report) string {
		loss, curve := r.Training.TestLoss, r.Series.Loss
		if p := r.Programs; p != nil {
			if best := p.Best(); best != nil {
				return fmt.Sprintf("%.4g, of %s", *best.Loss, best.Name())
			}
			if len(curve) > 0 {
				loss = curve[len(curve)-1].Train
			}
		}
		if loss == nil {
			return ""
		}
		return fmt.Sprintf("%.4g", *loss)
	}},
}

// compare shows two to eight runs side by side; its address can be shared.
func (b *Board) compare(w http.ResponseWriter, request *http.Request) {
	named, jobs := b.compared(w, request)
	if named == nil {
		return
	}
	v := compareView{frame: newFrame(false), Runs: named, JSON: "/api/compare?" + request.URL.RawQuery}
	for _, f := range figures {
		row := comparedRow{Name: f.name}
		for _, n := range named {
			row.Values = append(row.Values, f.of(n.Report))
		}
		v.Rows = append(v.Rows, row)
	}
	v.Rows = append(v.Rows, differences(jobs)...)
	metric, unit := named[0].Report.Run.Metric, page.LossUnit(named[0].Report)
	var curves []page.Curve
	for _, n := range named {
		r := n.Report
		if r.Run.Metric != metric || page.LossUnit(r) != unit {
			v.Note = "The runs have different losses or count in different units, so that their curves are not drawn together."
		}
		curve := page.Curve{Name: n.Name, Points: testedOrAll(r.Series.Loss)}
		if p := r.Programs; p != nil && p.Best() != nil {
			curve = page.Curve{Name: n.Name + ", " + p.Best().Name(), Points: p.Best().Losses}
		}
		curves = append(curves, curve)
	}
	if v.Note == "" {
		v.Charts = page.DrawRuns(cmp.Or(metric, "loss"), unit, curves)
	}
	var text bytes.Buffer
	if err := pages().ExecuteTemplate(&text, "compare.html", v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	pack("text/html; charset=utf-8", text.Bytes()).send(w, request)
}

func (b *Board) compareJSON(w http.ResponseWriter, request *http.Request) {
	if named, _ := b.compared(w, request); named != nil {
		answer(w, request, named)
	}
}

// compared returns the reports and job files of the runs that a request names; with fewer than two it answers the request and returns
// nothing.
func (b *Board) compared(w http.ResponseWriter, request *http.Request) (named []cost.Named, jobs []map[string]string) {
	names := slices.Clone(request.URL.Query()["run"])
	if slices.Sort(names); len(slices.Compact(names)) < 2 || len(names) > comparedAtOnce {
		trouble(w, http.StatusBadRequest, "Nothing to compare", fmt.Sprintf("Choose two to %d runs in the list.", comparedAtOnce))
		return nil, nil
	}
	for _, name := range slices.Compact(request.URL.Query()["run"]) {
		r := b.find(name)
		if r != nil {
			if sees, _ := b.may(request, r.summary(b.now())); !sees {
				r = nil
			}
		}
		if r == nil {
			trouble(w, http.StatusNotFound, "No such run", fmt.Sprintf("There is no run %q here.", name))
			return nil, nil
		}
		report, _, err := b.reportOf(request.Context(), r)
		if err != nil {
			unavailable(w, r, err)
			return nil, nil
		}
		r.mu.Lock()
		job := r.start.Job
		if r.status != nil {
			job = r.status.Start.Job
		}
		r.mu.Unlock()
		named, jobs = append(named, cost.Named{Name: name, Report: report}), append(jobs, flatten(json.RawMessage(b.shown(string(job)))))
	}
	return named, jobs
}

// testedOrAll omits the points without a test loss if others have one.
func testedOrAll(points []cost.LossPoint) []cost.LossPoint {
	tested := slices.DeleteFunc(slices.Clone(points), func(p cost.LossPoint) bool { return p.Test == nil })
	if len(tested) > 0 {
		return tested
	}
	return points
}

// differences lists the settings of job files that differ, by name.
func differences(jobs []map[string]string) (rows []comparedRow) {
	names := map[string]bool{}
	for _, job := range jobs {
		for name := range job {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row := comparedRow{Name: name, Setting: true}
		for _, job := range jobs {
			row.Values = append(row.Values, job[name])
		}
		if len(slices.Compact(slices.Clone(row.Values))) > 1 {
			rows = append(rows, row)
		}
	}
	return rows
}

// flatten returns a job file's fields by their paths, such as resources.count.
func flatten(job json.RawMessage) map[string]string {
	out := map[string]string{}
	var add func(path string, v any)
	add = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				add(strings.TrimPrefix(path+"."+name, "."), value)
			}
		default:
			text, _ := json.Marshal(v) // it was read from JSON
			out[path] = strings.Trim(string(text), `"`)
		}
	}
	var fields map[string]any
	if json.Unmarshal(job, &fields) == nil { // an unreadable one has no settings to compare
		add("", fields)
	}
	return out
}
