package budget

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/market"
)

var begin = time.Date(2014, 5, 1, 12, 0, 0, 0, time.UTC)

const (
	spot     = "ec2/us-west-1/us-west-1a/c3.xlarge/spot"
	onDemand = "ec2/us-west-1/us-west-1a/c3.xlarge/on-demand"
)

// day is a run of one reliable machine ($0.239 an hour) and some transient ones, reported by the minute.
type day struct {
	t      *testing.T
	guard  *Guard
	minute int
	heard  []string
	told   []journal.Entry
	said   []Decision
	held   []string
	count  int
}

func newDay(t *testing.T, limits Limits) *day {
	t.Helper()
	d := &day{t: t, guard: New(limits)}
	start, err := journal.Pack(journal.StartDetails{Name: "x", Clock: "2014-05-01T12:00:00Z@2026-11-21T09:00:00Z*600", Rules: "ec2-2017", App: "mf",
		Machines: []journal.MachineType{{Name: "c3.xlarge", VCPU: 4, OnDemand: "0.239", FLOPS: 1}}, Reliable: journal.Fleet{Pool: onDemand, Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	d.feed(journal.Entry{Kind: journal.Start, Details: start})
	d.price("0.03")
	d.launch("reliable", onDemand)
	return d
}

func (d *day) feed(e journal.Entry) {
	e.T = begin.Add(time.Duration(d.minute) * time.Minute)
	d.told = append(d.told, e)
	for _, decision := range d.guard.Feed(e) {
		d.heard = append(d.heard, fmt.Sprintf("%d %s", d.minute, decision.Do))
		d.said = append(d.said, decision)
	}
}

func (d *day) price(usd string) {
	at := begin.Add(time.Duration(d.minute)*time.Minute - time.Second)
	d.feed(journal.Entry{Kind: journal.Price, Pool: spot, USD: usd, At: &at})
}

func (d *day) launch(tier, pool string) {
	d.count++
	id, at := fmt.Sprintf("i-%d", d.count), begin.Add(time.Duration(d.minute)*time.Minute)
	e := journal.Entry{Kind: journal.Launch, Token: id, Instance: id, Tier: tier, Pool: pool, Launched: &at}
	if tier == "transient" {
		e.Bid = "1"
		d.held = append(d.held, id)
	}
	d.feed(e)
}

func (d *day) buy(n int) {
	for range n {
		d.launch("transient", spot)
	}
}

func (d *day) giveUp() {
	for _, id := range d.held {
		at := begin.Add(time.Duration(d.minute) * time.Minute)
		d.feed(journal.Entry{Kind: journal.Terminated, Instance: id, Pool: spot, Ended: &at, EndedBy: "user"})
	}
	d.held = nil
}

func (d *day) until(minute int) {
	for d.minute < minute {
		d.minute++
		d.feed(journal.Entry{Kind: journal.ClockDone, Clock: int64(d.minute)})
	}
}

func (d *day) want(want ...string) {
	d.t.Helper()
	if !slices.Equal(d.heard, want) {
		d.t.Errorf("heard %q, want %q: %+v", d.heard, want, d.said)
	}
}

func usd(text string) market.USD {
	v, err := market.ParseUSD(text)
	if err != nil {
		panic(err)
	}
	return v
}

// Hours are paid in advance: 0.239 + 10 x 0.03 = $0.539 each. The third would make it $1.617.
func TestTotal(t *testing.T) {
	d := newDay(t, Limits{Total: usd("1.30"), WarnAt: 0.8})
	d.buy(10)
	d.until(300)
	d.want("60 warn", "120 warn") // as the second and the third hour begin
	if d.guard.Over() != "" {     // the controller ends a run at its budget
		t.Error(d.guard.Over())
	}
}

// The rate follows the prices: a pause gives up the machines, and they come back when they would fit with a margin, though not before ten
// minutes.
func TestPauseThenContinue(t *testing.T) {
	d := newDay(t, Limits{PerHour: usd("1.00"), OverHour: Shrink})
	d.buy(10)
	d.until(20)
	d.price("0.09") // 0.239 + 0.9 = 1.139
	d.until(21)
	d.giveUp()
	d.until(25)
	d.price("0.03") // would fit at once
	d.until(60)
	d.want("21 shrink", "31 go-on")
	d.buy(10)
	d.until(70)
	d.price("0.09")
	d.until(71)
	d.giveUp()
	d.until(90)
	d.price("0.0725") // 0.964: fits, but not with a twentieth to spare
	d.until(100)
	d.price("0.07") // 0.939
	d.until(110)
	d.want("21 shrink", "31 go-on", "71 shrink", "101 go-on")
	if want := "the machines cost $1.14 an hour, above limits.per_hour, $1.00"; d.said[0].Why != want || d.said[0].USD != usd("1.139") {
		t.Errorf("%+v", d.said[0])
	}
}

func TestPerHour(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		want   []string
	}{
		"none":       {Limits{}, nil},
		"far":        {Limits{PerHour: usd("9"), WarnAt: 0.8, OverHour: Stop}, nil},
		"near":       {Limits{PerHour: usd("0.6"), WarnAt: 0.8, OverHour: Stop}, []string{"1 warn", "21 stop"}},
		"only warns": {Limits{PerHour: usd("0.8"), OverHour: Warn}, []string{"21 warn", "31 warn"}},
		"stops":      {Limits{PerHour: usd("0.8"), OverHour: Stop}, []string{"21 stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDay(t, c.limits)
			d.buy(10)
			d.until(20)
			d.price("0.09")
			d.until(40)
			d.want(c.want...)
		})
	}
}

// A run that its total limit has ended is not restarted with the same limit, though its machines have ended by then and it has not cost
// that much; with a larger one it is.
func TestUsedUpStaysSo(t *testing.T) {
	d := newDay(t, Limits{Total: usd("1.30")})
	d.buy(10)
	d.until(111)
	d.giveUp()
	d.feed(journal.Entry{Kind: journal.Done, Outcome: "interrupted", Why: fleet.BudgetUsedUp(usd("1.30"))})
	for limit, over := range map[string]bool{"1.30": true, "2": false} {
		g := New(Limits{Total: usd(limit)})
		for _, e := range d.told {
			g.Recall(e)
		}
		if (g.Over() != "") != over {
			t.Errorf("$%s: over %q", limit, g.Over())
		}
	}
}

// A switch holds two fleets for a while. If the pause falls into it, one must fit, not both.
func TestPauseWithinASwitch(t *testing.T) {
	d := newDay(t, Limits{PerHour: usd("1.00"), OverHour: Shrink})
	start, err := journal.Pack(journal.StartDetails{Name: "x", Clock: "2014-05-01T12:00:00Z@2026-11-21T09:00:00Z*600", Rules: "ec2-2017",
		Machines: []journal.MachineType{{Name: "c3.xlarge", VCPU: 4, OnDemand: "0.239", FLOPS: 1}}, Reliable: journal.Fleet{Pool: onDemand, Count: 1},
		Want: journal.Want{Machines: 10}})
	if err != nil {
		t.Fatal(err)
	}
	d.feed(journal.Entry{Kind: journal.Start, Details: start})
	d.buy(20)
	d.until(10)
	d.price("0.05") // 0.239 + 20 x 0.05
	d.until(11)
	d.giveUp()
	d.until(40)
	d.want("11 shrink", "21 go-on")
}

// A restarted controller reads the journal, and continues its predecessor's pause.
func TestPauseOutlivesItsController(t *testing.T) {
	d := newDay(t, Limits{PerHour: usd("1.00"), OverHour: Shrink})
	d.buy(10)
	d.until(5)
	d.feed(journal.Entry{Kind: journal.Budget, To: journal.Paused, Why: "of a controller before"})
	d.giveUp()
	d.until(30)
	d.want("15 go-on")
}

// Any journal gives the same decisions twice, and none after an end was requested.
func TestStories(t *testing.T) {
	for seed := range uint64(20) {
		var runs [2][]Decision
		for i := range runs {
			g := New(Limits{Total: usd("20"), PerHour: usd("3"), WarnAt: 0.5, OverHour: Shrink})
			for _, e := range journaltest.New(seed).Entries {
				over := g.Over() != ""
				more := g.Feed(e)
				if over && more != nil {
					t.Fatalf("seed %d: %+v after the end", seed, more)
				}
				runs[i] = append(runs[i], more...)
			}
		}
		if !slices.Equal(runs[0], runs[1]) {
			t.Errorf("seed %d: %+v, then %+v", seed, runs[0], runs[1])
		}
	}
}
