package sweep

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// No run exceeds its budget, from any start, by any policy and rule book, with a reliable tier of one small machine or two large ones.
// Prices become known as they change: an hour that begins before its price is known is still billed at it. TIERML_STARTS is the number of
// runs drawn.
func TestNoRunPassesItsBudget(t *testing.T) {
	runs := 160
	if n, err := strconv.Atoi(os.Getenv("TIERML_STARTS")); err == nil {
		runs = n
	}
	seed := uint64(time.Now().UnixNano())
	r, ended := rand.New(rand.NewPCG(seed, 1)), 0
	for _, rules := range []string{"ec2-2017", "ec2-pay-bid", "ec2-now", "gce-spot"} {
		for _, reliable := range []int{0, 2} {
			m := demoMaker(t, rules, 10*market.Dollar)
			if reliable > 0 {
				m.Job.Reliable.Type, m.Job.Reliable.Count = "c3.4xlarge", reliable
			}
			base, err := m.Base()
			if err != nil {
				t.Fatal(err)
			}
			first, last := window(&base)
			for range runs / 8 {
				names := Candidates(false)
				name := names[r.IntN(len(names))]
				made, err := m.By(name)
				if err != nil {
					t.Fatal(err)
				}
				one := made.Sim
				one.Start = first.Add(time.Duration(r.Int64N(int64(last.Sub(first)))).Truncate(time.Minute))
				one.Horizon, one.MaxDuration, one.Deadline = 240*time.Hour, 0, one.Start.Add(Within(&base))
				one.Timing.PriceLag = 0
				one.Budget = market.USD((1 + 11*r.Float64()) * float64(market.Dollar))
				got, err := sim.Run(one)
				if err != nil {
					t.Fatal(err)
				}
				if got.Cost > one.Budget {
					t.Errorf("seed %d: %s, %s, %d reliable, from %s: $%s of $%s: %s", seed, rules, name, reliable, one.Start.Format(time.RFC3339), got.Cost, one.Budget, got.Why)
				}
				if !got.Finished() {
					ended++
				}
			}
		}
	}
	if ended < runs/8 {
		t.Errorf("seed %d: the budget ended %d of %d runs", seed, ended, runs)
	}
}

// A price that rises a minute before the next hour of sixteen machines ends the run before that hour, which the budget can no longer pay.
func TestBudgetBeforeADearHour(t *testing.T) {
	m := demoMaker(t, "ec2-2017", 10*market.Dollar)
	m.Job.Reliable.Type, m.Job.Reliable.Count = "c3.4xlarge", 2
	made, err := m.By("capacity")
	if err != nil {
		t.Fatal(err)
	}
	one := made.Sim
	one.Start = time.Date(2014, 4, 1, 13, 9, 0, 0, time.UTC) // the price is above the bids from 15:27:09, and an hour begins at 15:28:07
	one.Horizon, one.MaxDuration, one.Deadline = 240*time.Hour, 0, one.Start.Add(200*time.Hour)
	one.Timing.PriceLag, one.Budget = 0, 9370*market.Dollar/1000
	got, err := sim.Run(one)
	if err != nil || got.Finished() || got.Cost > one.Budget || got.Runtime < 2*time.Hour {
		t.Errorf("%+v: %v", got, err)
	}
}

// The budget pays for eight machines' first hour at the bid. Eight more are not bought while the provider has not answered.
func TestBudgetBeforeTheProviderAnswers(t *testing.T) {
	m := demoMaker(t, "ec2-pay-bid", 10*market.Dollar)
	made, err := m.By("tierml-noswitch")
	if err != nil {
		t.Fatal(err)
	}
	one := made.Sim
	one.Start = time.Date(2014, 3, 23, 2, 51, 0, 0, time.UTC)
	one.Horizon, one.MaxDuration, one.Deadline = 240*time.Hour, 0, one.Start.Add(200*time.Hour)
	one.Timing.PriceLag, one.Budget = 0, 2208*market.Dollar/1000
	got, err := sim.Run(one)
	if err != nil || got.Cost > one.Budget || got.Machines != 9 {
		t.Errorf("%+v: %v", got, err)
	}
}

// Four machines' next hour begins a second after sixteen others could be bought: the budget pays for either, not both.
func TestBudgetBeforeHoursThatBegin(t *testing.T) {
	m := demoMaker(t, "ec2-pay-bid", 10*market.Dollar)
	m.Job.Reliable.Type, m.Job.Reliable.Count = "c3.4xlarge", 2
	base, err := m.Base()
	if err != nil {
		t.Fatal(err)
	}
	made, err := m.By("deadline")
	if err != nil {
		t.Fatal(err)
	}
	one := made.Sim
	one.Start = time.Date(2014, 3, 26, 23, 40, 0, 0, time.UTC) // the four are outbid at 00:38, and their hour begins at 00:40:03
	one.Horizon, one.MaxDuration, one.Deadline = 240*time.Hour, 0, one.Start.Add(Within(&base))
	one.Timing.PriceLag, one.Budget = 0, 9872*market.Dollar/1000
	got, err := sim.Run(one)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cost > one.Budget {
		t.Errorf("$%s of $%s: %s", got.Cost, one.Budget, got.Why)
	}
}
