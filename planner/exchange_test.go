package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
)

func TestExchange(t *testing.T) {
	job := &config.Job{Cloud: config.CloudLocal, Local: config.Local{Notice: 4 * time.Second}, UserProgram: config.UserProgram{Run: "x", Tiers: config.Tiers{Parameters: 250e6, Every: 50}},
		Resources: config.Resources{Count: config.Exactly(4)}}
	link := market.InstanceType{Bandwidth: 200e6}
	choice := Resolved{Reliable: Fleet{Type: link, Count: 2}, Pools: []bidding.Candidate{{Type: market.InstanceType{Bandwidth: 1e9}}, {Type: link}}}
	x := ExchangeOf(job, choice)
	if x != (Exchange{Bytes: 1e9, Back: 1e9, Reliable: 20 * time.Second, Machine: 5 * time.Second, Notice: 4 * time.Second}) {
		t.Errorf("%+v", x)
	}
	if value, detail := x.line(); value != "953.7 MB" || detail != "to each replica in a round, and as much back; 5s each way at its link, 20s for all at the reliable machines' links" {
		t.Errorf("%s %s", value, detail)
	}
	if w := x.Warning(); !strings.Contains(w, "a delivery takes 5s at a machine's link and a notice is 4s") {
		t.Error(w)
	}
	job.Tiers.Transport = "int8"
	x = ExchangeOf(job, choice)
	if value, detail := x.line(); x.Back != 250976563 || value != "953.7 MB" || detail != "to each replica in a round, and 239.3 MB back; 1.255s for that at its link, 12.51s for all at the reliable machines' links" {
		t.Errorf("%d %s %s", x.Back, value, detail)
	}
	job.Tiers.Transport, job.Tiers.Deterministic = "float32", true
	if x := ExchangeOf(job, choice); x.Back != 2e9 {
		t.Errorf("in fixed point: %+v", x)
	}
	x.Notice = time.Minute
	if w := x.Warning(); w != "" {
		t.Error(w)
	}
	job.Run = ""
	if x := ExchangeOf(job, choice); x != (Exchange{}) {
		t.Errorf("of training: %+v", x)
	}
}
