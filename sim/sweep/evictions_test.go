package sweep

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// calmJob is eight machines in a market without bids and with constant prices, plus one reliable machine.
func calmJob(t *testing.T, book string) sim.Config {
	t.Helper()
	rules, err := market.Rules(book)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(kind string, price market.USD) bidding.Candidate {
		return bidding.Candidate{
			Pool:    market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: kind, Class: market.Spot},
			Type:    market.InstanceType{Name: kind, VCPU: 4, OnDemand: 20 * market.Dollar / 100},
			History: market.NewHistory([]market.PricePoint{{At: begin, Price: price}, {At: begin.AddDate(0, 0, 30), Price: price}, {At: begin.AddDate(0, 0, 31), Price: price + 1}}),
		}
	}
	job := cellJob(rules, at("a", 8*market.Dollar/100), at("b", 7*market.Dollar/100))
	job.Want, job.Seed = bidding.Want{VCPU: 32}, 3
	return OnEC2(job, 4*time.Hour)
}

func TestParseEvictions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "us-west-2a_v100_1.json")
	if err := os.WriteFile(file, []byte(`{"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, 1, 1, 1, 0]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words      string
		want       float64
		none       bool
		recordings int
		fault      string
	}{
		{words: "auto"}, {words: "none", none: true}, {words: "0%", none: true}, {words: "12.5%", want: 0.125},
		{words: file + "," + file, recordings: 2},
		{words: "100%", fault: "below 100%"}, {words: "-1%", fault: "from 0%"}, {words: "x%", fault: "write a share"},
		{words: "often", fault: "write auto, none, a share of machines in a month such as 10%, or recordings"},
	} {
		e, err := ParseEvictions(strings.Split(c.words, ","))
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", c.words, err)
			}
		case err != nil || e.Month != c.want || e.None != c.none || len(e.Recordings) != c.recordings:
			t.Errorf("%s: %+v, %v", c.words, e, err)
		}
	}
}

// Rates come from any source that has them, which is named.
func TestEvictionsByWhatIsKnown(t *testing.T) {
	job := calmJob(t, "ec2-now")
	spot := slices.IndexFunc(job.Pools, func(c bidding.Candidate) bool { return !c.OnDemand() })
	job.Pools[spot].Hints.Interruptions = bidding.Hint{Value: 0.025, At: time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)}
	if err := (Evictions{}).Apply(&job); err != nil {
		t.Fatal(err)
	}
	if h := job.Hazard; h == nil || len(h.Pools) != 2 || h.Pools[0].PerHour() > h.Pools[1].PerHour()/5 || h.Pools[0].Places != 16 {
		t.Errorf("%+v", h)
	}
	if why := EvictionSource(&job); !strings.Contains(why, "provider's word") || !strings.Contains(why, "once in 3795 hours") || !strings.Contains(why, "(1 of 2 pools)") {
		t.Error(why)
	}
	for name, e := range map[string]Evictions{"none": {None: true}, "bids": {}} {
		job := calmJob(t, map[string]string{"none": "gce-spot", "bids": "ec2-2017"}[name])
		if err := e.Apply(&job); err != nil || job.Hazard != nil {
			t.Errorf("%s: %+v, %v", name, job.Hazard, err)
		}
	}
}

// All policies meet the same events, including those that follow recordings of availability; on demand nothing is evicted.
func TestPoliciesMeetTheSameEvictions(t *testing.T) {
	for _, words := range []string{"90%", "none"} {
		job := calmJob(t, "ec2-now")
		e, err := ParseEvictions([]string{words})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Apply(&job); err != nil {
			t.Fatal(err)
		}
		policies := []string{"tierml", "cost-per-work", "checkpoint", "on-demand", Clairvoyant}
		rows, err := Run(context.Background(), Experiment{Job: job, Policies: policies, Hours: []time.Duration{8 * time.Hour}, Starts: Starts{Count: 60, Seed: 1}}, func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		hit := map[string]int{}
		for _, r := range rows {
			if r.Evictions > 0 {
				hit[r.Policy]++
			}
		}
		// At 90 % a month an eighth of the starts are hit: all begin in the same pool.
		if words == "90%" && (hit["tierml"] < 5 || hit["on-demand"]+hit[Clairvoyant] > 0) || words == "none" && len(hit) > 0 {
			t.Errorf("%s: starts with evictions %v", words, hit)
		}
		if a, b := hit["tierml"], hit["checkpoint"]; max(a, b)-min(a, b) > 2 {
			t.Errorf("%s: tierml has evictions from %d starts, checkpoint from %d", words, a, b)
		}
		for _, s := range Summarize(rows) {
			if s.Policy == Clairvoyant && (s.CostMean < 0.349*s.OnDemandCost || s.CostMean > 0.351*s.OnDemandCost) {
				t.Errorf("the clairvoyant pays %.4f of on demand where spot machines cost 0.35", s.CostMean/s.OnDemandCost)
			}
			if s.Kept == nil || s.Policy == "tierml" && (*s.Kept < 0.5 || *s.Kept > 1) {
				t.Errorf("%s keeps %v of its saving", s.Policy, s.Kept)
			}
		}
	}
}

// The rule book names the provider, whatever provider the prices were recorded from; policies begin with the rate at which machines are
// taken.
func TestEvictionsAreOfTheRuleBooksProvider(t *testing.T) {
	for book, hours := range map[string]float64{"ec2-now": 3795, "gce-spot": 49, "gce-preemptible": 49} {
		job := calmJob(t, book)
		if err := (Evictions{}).Apply(&job); err != nil {
			t.Fatal(err)
		}
		if len(job.Hazard.Pools) == 0 {
			t.Fatalf("%s: no pool has evictions", book)
		}
		for _, p := range job.Hazard.Pools {
			if got := 1 / p.PerHour(); got < hours*0.98 || got > hours*1.02 {
				t.Errorf("%s: %s loses a machine in %.4g hours, want %.4g", book, p.Pool, got, hours)
			}
			c := job.Pools[slices.IndexFunc(job.Pools, func(c bidding.Candidate) bool { return c.Pool == p.Pool })]
			if prior := bidding.EvictionPrior(&c, job.Rules.Terms()); prior.Life != p.Life {
				t.Errorf("%s: policies begin with %v, machines live by %v", book, prior.Life, p.Life)
			}
		}
	}
}

// TestRecordingIsRepeatedFromAnOffset: every minute has what the recording had at its own minute, rotated.
func TestRecordingIsRepeatedFromAnOffset(t *testing.T) {
	a := invented(t, 1, 4).Availability
	first, _ := a.First()
	length := a.End().Sub(first.At)
	begin := time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)
	end := begin.Add(3 * length)
	const part = 0.25
	got, err := LaidOver(a, 16, begin, end, part)
	if err != nil {
		t.Fatal(err)
	}
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		into := (at.Sub(begin) + time.Duration(part*float64(length))) % length
		want, _ := a.At(first.At.Add(into))
		if n, known := got.At(at); !known || n != 4*want {
			t.Fatalf("at %s there are %d, %v; recorded %d", at, n, known, want)
		}
	}
	if _, err := LaidOver(&market.Availability{}, 1, begin, end, 0); err == nil {
		t.Error("an empty recording was taken")
	}
}
