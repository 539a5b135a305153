package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/tierml/tierml/sim"
)

func BenchmarkStart8h(b *testing.B) {
	cfg := OnEC2(demo(b), 8*time.Hour)
	for b.Loop() {
		if _, err := sim.Run(cfg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSweep is a dry run of 8 hours from starts all over the trace, by the three policies, on all cores. Its metric is starts/s: runs
// of a policy from a start.
func BenchmarkSweep(b *testing.B) {
	plan := Experiment{
		Job: demo(b), Policies: []string{"on-demand", "tierml", "tierml-noswitch"}, Hours: []time.Duration{8 * time.Hour},
		Starts: Starts{Count: 500, Seed: 1},
	}
	rows := 0
	for b.Loop() {
		got, err := Run(context.Background(), plan, func(int, int) {})
		if err != nil {
			b.Fatal(err)
		}
		rows += len(got)
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "starts/s")
}
