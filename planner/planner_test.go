package planner

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

var update = flag.Bool("update", false, "rewrite golden files")

var now = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

func pool(kind string) market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: kind, Class: market.Spot}
}

var (
	small = market.InstanceType{Name: "c3.xlarge", Arch: "x86_64", VCPU: 4, MemoryMiB: 7680, OnDemand: 240_000_000}
	large = market.InstanceType{Name: "c3.2xlarge", Arch: "x86_64", VCPU: 8, MemoryMiB: 15360, OnDemand: 480_000_000}
)

// steps returns a history: prices and durations alternately, beginning at `from` and repeated until a day after now, which no plan may see.
func steps(from time.Time, cycle ...any) *market.History {
	var points []market.PricePoint
	for at := from; at.Before(now.Add(24 * time.Hour)); {
		for i := 0; i < len(cycle); i += 2 {
			points = append(points, market.PricePoint{At: at, Price: market.USD(cycle[i].(int)) * market.Dollar / 1000})
			at = at.Add(cycle[i+1].(time.Duration))
		}
	}
	return market.NewHistory(points)
}

// onDemand is 40 vCPUs of a type for ten hours.
func onDemand(t market.InstanceType) OnDemand {
	p := pool(t.Name)
	p.Class = market.OnDemand
	count := 40 / t.VCPU
	return OnDemand{Fleet: Fleet{Pool: p, Type: t, Count: count}, Time: 10 * time.Hour, Cost: 10 * market.USD(count) * t.OnDemand}
}

// calm is ten machines for ten hours at a constant price.
func calm(t *testing.T) Input {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	baseline := onDemand(small)
	return Input{
		Name: "test", Now: now, Policy: bidding.TierML{}, Want: bidding.Want{Machines: 10},
		Pools: []bidding.Candidate{{
			Pool: pool("c3.xlarge"), Type: small, History: steps(now.Add(-30*24*time.Hour), 40, 24*time.Hour),
		}},
		Reliable: Fleet{Pool: baseline.Fleet.Pool, Type: small, Count: 1}, OnDemand: baseline, Rules: rules,
		// 40 vCPUs for ten hours.
		Work: 40 * 100 * 36_000, RatePerVCPU: 100,
	}
}

// exactly is an Estimator without uncertainty.
type exactly struct {
	cost market.USD
	time time.Duration
}

func (e exactly) Estimate(Input) (Forecast, error) {
	return outcomes(169, func(int) Run { return Run{Cost: e.cost, Time: e.time, Finished: true} }).Forecast(4 * time.Hour), nil
}

// tenHours of ten machines at $0.04 and one at $0.24.
var tenHours = exactly{6400_000_000, 10 * time.Hour}

func plan(t *testing.T, in Input) *Plan {
	t.Helper()
	p, err := Make(in, tenHours)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCalmMarket(t *testing.T) {
	p := plan(t, calm(t))
	wantCost, wantTime := tenHours.cost, tenHours.time
	if c := p.Forecast.Cost; !c.Known || c.Low != wantCost || c.Middle != wantCost || c.High != wantCost || c.HighOpen {
		t.Errorf("cost %+v, want exactly %s", c, wantCost)
	}
	if d := p.Forecast.Time; !d.Known || d.Low != wantTime || d.High != wantTime {
		t.Errorf("time %+v, want exactly %s", d, wantTime)
	}
	if o := p.OnDemand; o.Cost != 24*market.Dollar || o.Time != wantTime || o.Fleet.Count != 10 {
		t.Errorf("on demand %+v, want 10 machines for 10h at $24", o)
	}
	if len(p.Warnings) != 0 {
		t.Errorf("warnings %q", p.Warnings)
	}
	if !strings.Contains(p.Forecast.Basis, "169 past starts") {
		t.Errorf("basis %q", p.Forecast.Basis)
	}
}

// A commitment is paid anyway: the reliable machines' hours add no cost, and the plan states the commitment's price.
func TestCommittedReliableMachines(t *testing.T) {
	in := calm(t)
	in.Reliable.Pool.Type, in.Reliable.Type.Name = "m5.large", "m5.large"
	before := in.job(now, 0).Upkeep
	var err error
	if in.Rules, err = market.Rules(in.Rules.Name() + "+committed=m5.large@0.0613"); err != nil {
		t.Fatal(err)
	}
	if after := in.job(now, 0).Upkeep; before == 0 || after != 0 {
		t.Errorf("an hour of the reliable machines counts %s without a commitment, %s with one", before, after)
	}
	if title := plan(t, in).title(); !strings.Contains(title, "m5.large in us-west-1a, committed at $0.0613 an hour each, paid anyway") {
		t.Error(title)
	}
}

// stormy has a cheap pool that is evicted every 7 hours for 20 minutes, and a dearer calm one.
func stormy(t *testing.T) Input {
	in := calm(t)
	from := now.Add(-30 * 24 * time.Hour)
	in.Pools = []bidding.Candidate{
		{Pool: pool("c3.2xlarge"), Type: large, History: steps(from, 100, 11*time.Hour, 110, 13*time.Hour)},
		{Pool: pool("c3.xlarge"), Type: small, History: steps(from, 30, 400*time.Minute, 900, 20*time.Minute)},
	}
	in.Want = bidding.Want{VCPU: 40}
	in.OnDemand = onDemand(large)
	in.Tempo.Startup = 3 * time.Minute
	return in
}

func TestWarnings(t *testing.T) {
	in := calm(t)
	in.Budget, in.Deadline, in.MaxDuration = 6*market.Dollar, now.Add(9*time.Hour), 8*time.Hour
	want := []string{
		"the expected cost, $6.40, is above the budget, $6.00: the run would be ended before it is done",
		"the expected end, 2014-04-01 10:00, is after the deadline, 2014-04-01 09:00",
		"the expected time, 10h, is above max_duration, 8h: the run would be ended before it is done",
	}
	if diff := cmp.Diff(want, plan(t, in).Warnings); diff != "" {
		t.Error(diff)
	}
	in.Budget, in.Deadline, in.MaxDuration = 7*market.Dollar, now.Add(10*time.Hour), 10*time.Hour
	if got := plan(t, in).Warnings; len(got) != 0 {
		t.Errorf("warnings although all is just met: %q", got)
	}
}

// A count of machines of unequal types is converted to vCPUs by the provider's prices.
func TestCountOfUnequalTypes(t *testing.T) {
	in := stormy(t)
	in.Want = bidding.Want{Machines: 10}
	const want = "resources.count: 10 is 40 vCPUs of c3.xlarge and 80 of c3.2xlarge; resources.vcpu: 40 in its place buys as much of every type"
	if got := plan(t, in).Warnings; !slices.Contains(got, want) {
		t.Errorf("warnings %q", got)
	}
	for name, change := range map[string]func(){"vCPUs": func() { in.Want = bidding.Want{VCPU: 40} },
		"one type": func() { in.Want, in.Pools = bidding.Want{Machines: 10}, in.Pools[:1] }} {
		change()
		if got := plan(t, in).Warnings; slices.Contains(got, want) {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
}

// TestPoolsOfTwoRegions: the plan warns of what a move costs, and that a run buys in one region only.
func TestPoolsOfTwoRegions(t *testing.T) {
	in := calm(t)
	far := in.Pools[0]
	far.Pool.Region = "us-west-9"
	in.Pools = append(slices.Clone(in.Pools), far)
	in.Policy, in.Reliable, in.State = bidding.Checkpoint{}, Fleet{}, 20e9
	said := strings.Join(plan(t, in).Warnings, "; ")
	for _, want := range []string{in.Pools[0].Pool.Region + ", us-west-9", "one region only", "20 GB, costs $0.40"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}

// Ten machines at $0.04 and a reliable one at $0.24 would cost $0.64 an hour, and a twentieth must stay free.
func TestHourlyLimit(t *testing.T) {
	for limit, want := range map[market.USD][]string{
		0: nil, 700_000_000: nil, 500_000_000: {"limits.per_hour, $0.50, has room for 5 of 10 machines at the prices of the start"},
		200_000_000: {"limits.per_hour, $0.20, has room for 0 of 10 machines at the prices of the start"},
	} {
		in := calm(t)
		in.PerHour = limit
		if diff := cmp.Diff(want, plan(t, in).Warnings); diff != "" {
			t.Errorf("%s: %s", limit, diff)
		}
	}
	in := calm(t)
	in.Policy, in.Reliable, in.PerHour = bidding.Checkpoint{}, Fleet{}, 300_000_000
	if got := plan(t, in).Warnings; len(got) != 1 || !strings.Contains(got[0], "has no room for a whole fleet of 10 machines") {
		t.Errorf("%q", got)
	}
}

func TestMakeRefusesNonsense(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"work":     func(in *Input) { in.Work = 0 },
		"rate":     func(in *Input) { in.RatePerVCPU = -1 },
		"reliable": func(in *Input) { in.Reliable.Count = -1 },
		"types":    func(in *Input) { in.OnDemand = OnDemand{} },
	} {
		in := calm(t)
		change(&in)
		if _, err := Make(in, tenHours); err == nil || !strings.HasPrefix(err.Error(), "planning: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// drawn returns a plan with given figures: changed estimates must not change its text.
func drawn(t *testing.T) *Plan {
	in := stormy(t)
	in.Name, in.MaxDuration = "demo", 655*time.Minute
	considered := func(c bidding.Considered, price market.USD) Pool {
		c.Price, c.HasPrice, c.Bid = price, price > 0, c.OnDemand
		return Pool{Considered: c}
	}
	p := &Plan{
		Input: in,
		Pools: []Pool{
			considered(bidding.Considered{Pool: pool("c3.2xlarge"), OnDemand: large.OnDemand, Count: 5, Chosen: true,
				MTTF: market.Estimate{Known: true, Mean: 14 * 24 * time.Hour, Censored: true},
				Why:  "highest MTTF at least 14d0h at bid $0.48"}, 100_000_000),
			considered(bidding.Considered{Pool: pool("c3.4xlarge"), OnDemand: 2 * large.OnDemand, Count: 3,
				Why: "spot price unknown"}, 0),
			considered(bidding.Considered{Pool: pool("c3.xlarge"), OnDemand: small.OnDemand, Count: 10,
				MTTF: market.Estimate{Known: true, Mean: 203 * time.Minute, Episodes: 7},
				Why:  "MTTF 3h23m is lower than that of us-west-1a c3.2xlarge, and this reason goes on for so long that it does not fit on one line"},
				298_000_000),
		},
		Forecast: Forecast{
			Cost:  Range[market.USD]{Known: true, Low: 8930_000_000, Middle: 9180_000_000, High: 9480_000_000},
			Time:  Range[time.Duration]{Known: true, Low: 11 * time.Hour, Middle: 670 * time.Minute, High: 13 * time.Hour, HighOpen: true},
			Basis: "169 past starts, one every 1h from 2014-03-24 01:40 to 2014-03-31 01:40, simulated with this policy",
		},
		OnDemand: OnDemand{Fleet: Fleet{Pool: in.OnDemand.Fleet.Pool, Type: large, Count: 5}, Time: 670 * time.Minute, Cost: 28800_000_000},
		Warnings: []string{"the expected cost, $9.18, is above the budget, $5.00: the run would be ended before it is done"},
	}
	p.Pools[0].Capacity, p.Pools[0].Limited = 12, true
	p.Prediction = &Prediction{Run: Run{Cost: 9_020_000_000, Time: 655 * time.Minute, Done: .96, Why: "max_duration 10h55m0s is over"}, Basis: "with the shipped calibration",
		Skipped: []string{"throttle at 1h0m0s"}}
	return p
}

// A run outside the range reports it, with what it meets; one that is ended reports the reason.
func TestPredictionRemarks(t *testing.T) {
	p := drawn(t)
	p.Forecast.Evictions = Range[int]{Known: true, Low: 0, Middle: 1, High: 4}
	remarks := func(run Run) string {
		p.Prediction = &Prediction{Run: run}
		return strings.TrimSpace(p.outside() + " " + p.cut())
	}
	done := Run{Finished: true, Cost: 9180_000_000, Time: 12 * time.Hour, Evictions: 4}
	dear, late, odd := done, done, done
	dear.Cost, dear.Evictions = 14310_000_000, 10
	late.Time = 14 * time.Hour
	odd.Cost, odd.Evictions = 8000_000_000, 1
	over := Run{Cost: 9_000_000_000, Time: 655 * time.Minute, Done: .5, Why: "max_duration 10h55m0s is over"}
	for want, run := range map[string]Run{
		"": done,
		"That is above the range: this start meets 10 evictions, and nine tenths of the past starts met 0 to 4.": dear,
		"That is above the range: this start meets other prices than the past starts, which the range is of.":    late,
		"That is below the range: this start meets other prices than the past starts, which the range is of.":    odd,
		"It ends then with 50 % of the work done: max_duration 10h55m0s is over.":                                over,
		"It would fail before it is done.": {Time: time.Hour},
	} {
		if got := remarks(run); got != want {
			t.Errorf("%+v: %q, want %q", run, got, want)
		}
	}
	p.Prediction = &Prediction{Run: odd, Calm: true}
	if got := p.outside(); got != "That is below the range: this start meets no evictions but those by prices, as on the fake cloud; the range counts those for capacity too." {
		t.Error(got)
	}
}

func TestText(t *testing.T) {
	p := drawn(t)
	var plain, colored bytes.Buffer
	if err := p.WriteText(&plain, Style{Speed: 600}); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteText(&colored, Style{Speed: 600, Color: true}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(plain.String()) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > Width {
			t.Errorf("longer than %d columns: %s", Width, line)
		}
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colours in plain text")
	}
	stripped := colored.String()
	for _, code := range []string{bold, green, yellow, faint, "\x1b[0m"} {
		stripped = strings.ReplaceAll(stripped, code, "")
	}
	if stripped != plain.String() || colored.Len() == plain.Len() {
		t.Error("colours change more than the look")
	}
	golden(t, "testdata/plan.golden", plain.String())

	// A name chosen by others adds no escape sequence of its own to the colours.
	evil, pools := *p, slices.Clone(p.Pools)
	pools[0].Pool.Type += "\x1b]0;x\a"
	pools[0].Why += "\x1b]0;x\a"
	evil.Pools, evil.Input.Name, evil.Warnings = pools, "\x1b]0;x\a", []string{"\x1b]0;x\a"}
	var out bytes.Buffer
	if err := evil.WriteText(&out, Style{Color: true}); err != nil || strings.Contains(out.String(), "\x1b]") || strings.Count(out.String(), `\u001b]0;x\u0007`) < 4 {
		t.Errorf("%v\n%q", err, out.String())
	}

	var unknown bytes.Buffer
	p.Forecast, p.Warnings, p.Pools[0].Chosen = Forecast{Basis: tooFew(3, 24)}, nil, false
	p.Prediction = nil
	if err := p.WriteText(&unknown, Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/unknown.golden", unknown.String())
}

// On-demand pools next to chosen spot pools have a line of their own; if nothing else can be bought, they are in the table.
func TestOnDemandPoolsApart(t *testing.T) {
	p := plan(t, calm(t))
	for _, kind := range []string{"m3.large", "a1.small"} {
		dear := p.Pools[0]
		dear.Pool.Type, dear.Pool.Class, dear.Chosen, dear.OnDemand = kind, market.OnDemand, false, dear.OnDemand*2
		p.Pools = append(p.Pools, dear)
	}
	text := func() string {
		var b bytes.Buffer
		if err := p.WriteText(&b, Style{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	zone, price := p.Pools[0].Pool.Zone, perHour(p.Pools[len(p.Pools)-1].OnDemand)
	want := fmt.Sprintf("  On demand, while no spot pool can be bought from: m3.large in %s at $%s, a1.small in %[1]s", zone, price)
	if got := strings.Join(strings.Fields(text()), " "); !strings.Contains(got, strings.TrimSpace(want)) {
		t.Errorf("want %q in:\n%s", want, text())
	}
	for i := range p.Pools {
		p.Pools[i].Chosen = false
	}
	if got := text(); strings.Contains(got, "On demand, while") || !strings.Contains(got, "  m3.large  ") {
		t.Errorf("no spot pool is chosen:\n%s", got)
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run `make golden`", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func TestDetails(t *testing.T) {
	made := plan(t, calm(t))
	if d := made.Details(); d.Prediction != nil || !strings.Contains(d.Basis, "169 past starts") {
		t.Errorf("details %+v", d)
	}
	made.Prediction = &Prediction{Run: Run{Cost: 7 * market.Dollar, Time: 9 * time.Hour, Finished: true}, Basis: "as measured", Skipped: []string{"throttle at 1h"}}
	d := made.Details()
	if p := d.Prediction; p == nil || p.USD != "7" || p.Seconds != 9*3600 || !p.Finished || p.Basis != "as measured" || len(p.Skipped) != 1 {
		t.Errorf("prediction %+v", p)
	}
	if d.Cost.Mid != 6.4 || d.Runtime.Mid != 36000 || d.OnDemand.USD != "24" || d.OnDemand.Count != 10 {
		t.Errorf("details %+v", d)
	}
	if p := d.Pools[0]; !p.Chosen || p.Price != "0.04" || p.Pool != pool("c3.xlarge").String() || p.Saving < 0.83 || p.Saving > 0.84 {
		t.Errorf("pool %+v", p)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		90 * time.Second: "1m30s", 0: "0s", 59*time.Minute + 40*time.Second: "60m", 9*time.Hour + 40*time.Minute: "9h40m",
		10 * time.Hour: "10h", 50 * time.Hour: "2d2h", 15 * time.Minute: "15m", 4 * time.Second: "4s",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var runs []Run
	for i := range 100 {
		runs = append(runs, Run{Time: time.Duration(i + 1), Finished: i < 90})
	}
	r := rangeOf(runs, func(r Run) time.Duration { return r.Time })
	if want := (Range[time.Duration]{Known: true, Low: 5, Middle: 50, High: 95, HighOpen: true}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
}

func TestOwnRunsInWords(t *testing.T) {
	for want, o := range map[string]Own{
		"": {Runs: fewestOwn - 1},
		" Of 14 of your runs on this cloud, 13 ended inside by cost, 12 by time.":   {Runs: 14, ByCost: 13, ByTime: 12},
		" Of 5 of your runs on replayed prices, 5 ended inside by cost, 4 by time.": {Replayed: true, Runs: 5, ByCost: 5, ByTime: 4},
	} {
		if got := o.words(); got != want {
			t.Errorf("%+v: %q", o, got)
		}
	}
}
