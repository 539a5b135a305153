package main

import (
	"encoding/json"
	"testing"

	"github.com/tierml/tierml/jobrun/drill"
)

// A drill kills and evicts machines of a run in training, and reports that it continues.
func TestDrillOnARun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := s.start("run", "-y", s.job(choices{Clocks: 1_000_000, Speed: 60, Flops: 20_000, Limits: "max_duration: 10000h"}))
	s.until(run, "small-1", "the first clock", clockIs(1))
	for _, do := range []string{drill.Kill, drill.Rebalance, drill.EvictNow} {
		p := s.start("drill", "small", "--do", do, "-o", "json", "--within", patience.String())
		if err := <-p.ended; err != nil {
			t.Fatalf("tierml drill --do %s: %v: %s", do, err, p.out.String())
		}
		text := p.out.String()
		var r drill.Report
		at := 0
		for at < len(text) && text[at] != '{' { // after the machines' names
			at++
		}
		if err := json.Unmarshal([]byte(text[at:]), &r); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if !r.WentOn || len(r.Targets) != 1 || do != drill.Rebalance && r.Gone != 1 {
			t.Errorf("--do %s: %+v", do, r)
		}
	}
	run.abandon()
	s.nothingRuns()
	p := s.start("drill", "small")
	if err := <-p.ended; err == nil {
		t.Error("a drill of a run that has ended was begun")
	}
}
