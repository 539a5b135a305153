// Package export passes reports of runs to other tools: TensorBoard's event files, MLflow. An Exporter gets a report as figures and events;
// it knows nothing about journals, and computes nothing.
package export

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/market"
)

// Exporter writes runs in another tool's form.
type Exporter interface {
	// Export writes a run to a place, which it checks; an empty one is the tool's default. It returns where to find the run. Exporting a
	// run again, for example after it has continued, replaces it.
	Export(ctx context.Context, run Run, into string) (where string, err error)
}

// exporters by the word after -o; a new one is added here.
var exporters = map[string]Exporter{"mlflow": MLflow{}, "tensorboard": TensorBoard{}}

// Names returns the exporters' words.
func Names() []string { return slices.Sorted(maps.Keys(exporters)) }

// Of returns an exporter by its word; nil = none.
func Of(name string) Exporter { return exporters[name] }

// Run is the exported data. Times are market time.
type Run struct {
	Name    string // of its directory
	Job     string
	Outcome string // "finished", "failed", "interrupted", or "unfinished"
	Began   time.Time
	Ended   time.Time // end of the known time
	About   map[string]string
	Series  []Series // a series belongs to the run, or to one of its trials
	Events  []cost.Event
}

// Series is a figure over steps.
type Series struct {
	Trial, Name string
	Points      []Point
}

// Point is a figure's value.
type Point struct {
	At    time.Time
	Step  int64
	Value float64
}

// New returns a report's data for export.
func New(name string, r *cost.Report) Run {
	run := Run{Name: name, Job: r.Run.Name, Outcome: r.Run.Outcome, Began: r.Run.Began, Ended: r.Run.AsOf, Events: r.Events, About: map[string]string{
		"job": r.Run.Name, "kind": r.Run.Kind, "app": r.Run.App, "policy": r.Run.Policy, "cloud": r.Run.Cloud, "seed": fmt.Sprint(r.Run.Seed)}}
	if r.Run.Replayed {
		run.About["market"] = "a recording: its dollars and times are not real"
	}
	maps.DeleteFunc(run.About, func(_, v string) bool { return v == "" })
	run.losses("", r.Run.Metric, r.Series.Loss)
	if r.Programs != nil {
		for _, t := range r.Programs.Trials {
			run.losses(t.Name(), r.Run.Metric, t.Losses)
		}
	}
	for _, m := range r.Series.Use {
		run.use(m)
	}
	last := int64(r.Training.Clocks)
	if n := len(r.Series.Loss); n > 0 {
		last = r.Series.Loss[n-1].Clock
	}
	for name, value := range map[string]float64{"cost/total_dollars": dollars(r.Totals.Total), "cost/saving_dollars": dollars(r.Totals.Saving),
		"cost/machine_hours": r.Totals.MachineHours, "evictions": float64(r.Totals.Evictions)} {
		run.Series = append(run.Series, Series{Name: name, Points: []Point{{r.Run.AsOf, last, value}}})
	}
	slices.SortStableFunc(run.Series, func(a, b Series) int { return strings.Compare(a.Trial+"/"+a.Name, b.Trial+"/"+b.Name) })
	return run
}

func dollars(v market.USD) float64 { return float64(v) / float64(market.Dollar) }

// losses adds losses, and the money spent until then.
func (run *Run) losses(trial, metric string, points []cost.LossPoint) {
	train, test, paid := Series{Trial: trial, Name: metric + "/train"}, Series{Trial: trial, Name: metric + "/test"}, Series{Trial: trial, Name: "cost/dollars"}
	for _, p := range points {
		if p.Train != nil {
			train.Points = append(train.Points, Point{p.At, p.Clock, *p.Train})
		}
		if p.Test != nil {
			test.Points = append(test.Points, Point{p.At, p.Clock, *p.Test})
		}
		paid.Points = append(paid.Points, Point{p.At, p.Clock, p.USD})
	}
	for _, s := range []Series{train, test, paid} {
		if len(s.Points) > 0 {
			run.Series = append(run.Series, s)
		}
	}
}

// use adds a machine's use, by seconds since the run began.
func (run *Run) use(m cost.MachineUse) {
	cores, memory := Series{Name: "machine/" + m.Machine + "/cores"}, Series{Name: "machine/" + m.Machine + "/memory_bytes"}
	for _, s := range m.Steps {
		at := Point{At: s.At, Step: int64(s.At.Sub(run.Began).Seconds()), Value: s.Cores}
		cores.Points = append(cores.Points, at)
		at.Value = float64(s.Memory)
		memory.Points = append(memory.Points, at)
	}
	run.Series = append(run.Series, cores, memory)
}
