// Package calibration measures, from the journal of a real run, how much longer things take on this computer than
// declared, for simulations of other runs. It knows nothing about costs, which sim computes.
package calibration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// Calibration holds the measured times, in wall-clock milliseconds. Zero means that the run allowed no measurement: the
// default stays.
type Calibration struct {
	Run       string  `json:"run"`           // the measured run
	Clocks    int     `json:"clocks"`        // number of measured clocks
	Clock     float64 `json:"clock_ms"`      // mean excess of a clock over its work at the declared rates
	Machines  float64 `json:"machines"`      // mean number that worked on them: a clock of fewer takes proportionally longer
	Start     float64 `json:"start_ms"`      // from the end of a machine's boot until it is ready
	NoticeLag float64 `json:"notice_lag_ms"` // from a warning until the controller knows
	EndLag    float64 `json:"end_lag_ms"`    // from a machine's end until the controller knows
	PriceLag  float64 `json:"price_lag_ms"`  // from a price change until the controller knows
	// Note says why Clock is zero although clocks were measured.
	Note string `json:"note,omitempty"`
}

// job is the part of the job in a journal's first line that is needed.
type job struct {
	Local struct {
		Boot, Notice string
		Speed        float64
	}
}

// Measure measures a run. All figures are medians, except for the clocks' mean.
func Measure(entries []journal.Entry) (Calibration, error) {
	if len(entries) == 0 || entries[0].Kind != journal.Start {
		return Calibration{}, fmt.Errorf("the journal does not begin with a start")
	}
	var details journal.StartDetails
	if err := json.Unmarshal(entries[0].Details, &details); err != nil {
		return Calibration{}, fmt.Errorf("reading the journal's start: %w", err)
	}
	var j job
	if err := json.Unmarshal(details.Job, &j); err != nil {
		return Calibration{}, fmt.Errorf("reading the journal's job: %w", err)
	}
	boot, err := time.ParseDuration(j.Local.Boot)
	if err != nil {
		return Calibration{}, fmt.Errorf("reading the job's boot: %w", err)
	}
	notice, err := time.ParseDuration(j.Local.Notice)
	if err != nil {
		return Calibration{}, fmt.Errorf("reading the job's notice: %w", err)
	}
	if !(j.Local.Speed > 0) {
		return Calibration{}, fmt.Errorf("the job's speed is %v; it must be above zero", j.Local.Speed)
	}
	m := meter{speed: j.Local.Speed, start: entries[0].T, rate: map[string]float64{}, machines: map[string]machine{}}
	for _, t := range details.Machines {
		m.rate[t.Name] = t.FLOPS
	}
	for _, e := range entries {
		m.look(e)
	}
	c := Calibration{Run: details.Name, Clocks: len(m.clocks), Clock: mean(m.clocks), Machines: mean(m.working), EndLag: median(m.ends), PriceLag: median(m.prices)}
	if len(m.starts) > 0 {
		c.Start = max(0.001, median(m.starts)-milliseconds(boot))
	}
	if len(m.notices) > 0 {
		c.NoticeLag = max(0.001, median(m.notices)+milliseconds(notice))
	}
	if details.Program != nil { // programs have no clocks: the report shows how long they and their preparations take
		return c, nil
	}
	if len(m.clocks) < fewestClocks {
		return c, fmt.Errorf("%d clocks of the run can be measured, and %d are needed", len(m.clocks), fewestClocks)
	}
	if c.Clock < 0 { // negative time is impossible: this run's declared work is wrong
		c.Note = fmt.Sprintf("clocks took %.1f ms less than their work at the declared rates: this run's machines were faster, or its work was less, "+
			"than declared, so what a clock takes beside its work cannot be told from it; the shipped figure stays", -c.Clock)
		c.Clock = 0
	}
	return c, nil
}

const fewestClocks = 20

type machine struct {
	kind     string
	launched time.Time
	working  bool
}

// meter collects the measurements of a journal.
type meter struct {
	speed    float64
	start    time.Time
	rate     map[string]float64 // floating-point operations per wall-clock second, by type
	machines map[string]machine // transient machines
	before   time.Time          // the clock before, if only clocks, cuts and prices came since; zero = none

	clocks, starts, notices, ends, prices []float64 // wall-clock milliseconds
	working                               []float64 // machines, by clock
}

func (m *meter) wall(d time.Duration) float64 { return milliseconds(d) / m.speed }

func (m *meter) look(e journal.Entry) {
	switch e.Kind {
	case journal.ClockDone:
		m.clock(e)
		return
	case journal.Price:
		if e.At != nil && e.At.After(m.start) {
			m.prices = append(m.prices, m.wall(e.T.Sub(*e.At)))
		}
		return
	case journal.Launch:
		if pool, err := market.ParsePool(e.Pool); err == nil && e.Launched != nil {
			m.machines[e.Instance] = machine{kind: pool.Type, launched: *e.Launched}
		}
	case journal.Ready:
		if of, ok := m.machines[e.Instance]; ok {
			m.starts = append(m.starts, m.wall(e.T.Sub(of.launched)))
		}
	case journal.Join:
		of := m.machines[e.Instance]
		of.working = e.Tier == "transient"
		m.machines[e.Instance] = of
	case journal.Leave:
		delete(m.machines, e.Instance)
	case journal.Notice:
		if e.Deadline != nil {
			m.notices = append(m.notices, m.wall(e.T.Sub(*e.Deadline)))
		}
	case journal.Evicted:
		if e.Ended != nil {
			m.ends = append(m.ends, m.wall(e.T.Sub(*e.Ended)))
		}
	case journal.Cut, journal.Charge:
		return
	}
	m.before = time.Time{}
}

// clock measures a clock if its machines, all of one type and all working, stayed the same throughout. An unexplained
// long clock counts: on a busy computer there will be more.
func (m *meter) clock(e journal.Entry) {
	before := m.before
	m.before = e.T
	rate, kind, working := 0.0, "", 0.0
	for _, of := range m.machines {
		if !of.working {
			continue
		}
		if kind != "" && of.kind != kind {
			return
		}
		kind = of.kind
		rate += m.rate[kind]
		working++
	}
	if before.IsZero() || rate == 0 || e.Redone || e.Work == 0 {
		return
	}
	work, took := 1000*e.Work/rate, m.wall(e.T.Sub(before))
	m.clocks, m.working = append(m.clocks, took-work), append(m.working, working)
}

// Words describes the measurements.
func (c Calibration) Words() string {
	clock := ""
	switch {
	case c.Note != "":
		clock = fmt.Sprintf("%s (%d clocks); ", c.Note, c.Clocks)
	case c.Clocks > 0:
		clock = fmt.Sprintf("a clock takes %.1f ms beside its work (%d clocks); ", c.Clock, c.Clocks)
	}
	said := func(ms float64) string {
		if ms == 0 {
			return "not measured"
		}
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%s: %sstart of a machine after its boot: %s;\nnews come late: notices %s, ends %s, prices %s.",
		c.Run, clock, said(c.Start), said(c.NoticeLag), said(c.EndLag), said(c.PriceLag))
}

// Over returns c, with figures that c's run could not measure taken from an earlier calibration.
func (c Calibration) Over(earlier Calibration) Calibration {
	if c.Clock == 0 {
		c.Clock, c.Clocks, c.Machines, c.Note = earlier.Clock, earlier.Clocks, earlier.Machines, cmp.Or(c.Note, earlier.Note)
	}
	c.Start, c.NoticeLag = cmp.Or(c.Start, earlier.Start), cmp.Or(c.NoticeLag, earlier.NoticeLag)
	c.EndLag, c.PriceLag = cmp.Or(c.EndLag, earlier.EndLag), cmp.Or(c.PriceLag, earlier.PriceLag)
	return c
}

// Apply replaces the defaults with the measured times.
func (c Calibration) Apply(t *sim.Timing) {
	set := func(to *time.Duration, ms float64) {
		if ms > 0 {
			*to = time.Duration(ms * t.Speed * float64(time.Millisecond)).Round(time.Microsecond)
		}
	}
	set(&t.Clock, c.Clock/max(c.Machines, 1))
	set(&t.Start, c.Start)
	set(&t.NoticeLag, c.NoticeLag)
	set(&t.EndLag, c.EndLag)
	set(&t.PriceLag, c.PriceLag)
}

// Load reads a saved calibration. It returns fs.ErrNotExist if there is none.
func Load(path string) (c Calibration, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("reading the calibration: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading the calibration %s: %w", path, err)
	}
	return c, nil
}

// Save writes it in a readable form.
func (c Calibration) Save(path string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the calibration: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the calibration: %w", err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mean(of []float64) float64 {
	sum := 0.0
	for _, x := range of {
		sum += x
	}
	return sum / float64(max(1, len(of)))
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
