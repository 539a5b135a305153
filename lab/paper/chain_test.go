package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

var begin = time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)

// chainOf returns that of prices in cents that follow each other, each for a step, over and over again; on demand costs a dollar.
func chainOf(times int, cents ...int) *chain {
	var points []market.PricePoint
	for i := range times * len(cents) {
		points = append(points, market.PricePoint{At: begin.Add(time.Duration(i) * chainStep), Price: market.USD(cents[i%len(cents)]) * market.Dollar / 100})
	}
	return fitChain(market.NewHistory(points), market.Dollar)
}

// TestChainCounts: what follows what, and how often.
func TestChainCounts(t *testing.T) {
	c := chainOf(200, 10, 10, 20, 300)
	if len(c.prices) != 3 || c.bids() != 2 || c.prices[0] != market.Dollar/10 || c.prices[1] != market.Dollar/5 {
		t.Fatalf("levels %v, of which %d may be bid", c.prices, c.bids())
	}
	for level, want := range [][3]float64{{0.5, 0.5, 0}, {0, 0, 1}, {1, 0, 0}} {
		var got [3]float64
		for _, s := range c.next[level] {
			got[s.to] = s.p
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 0.01 {
				t.Errorf("after %s: %v, want %v", c.prices[level], got, want)
			}
		}
	}
}

// TestLeastWhereItIsKnown: markets in which the best can be told without a computer.
func TestLeastWhereItIsKnown(t *testing.T) {
	even := &reach{chain: chainOf(300, 30), upkeep: 0.1}
	if got := even.least(); math.Abs(got-0.4) > 0.01 { // machines are kept forever
		t.Errorf("at an even price of 0.30 and 0.10 of upkeep an hour costs %.3f", got)
	}
	// Above on demand at every other step: hours that begin are interrupted at once, and all that works is the notice.
	dear := &reach{chain: chainOf(300, 200), upkeep: 0.1}
	if got := dear.least(); math.Abs(got-1.1) > 0.01 {
		t.Errorf("above the on-demand price an hour costs %.3f", got)
	}
	// A spike every 50 minutes: each hour is free. Of ten steps, two are lost to the start and the spike; the notice works.
	spiky := &reach{chain: chainOf(300, 30, 30, 30, 30, 30, 30, 30, 30, 30, 200), upkeep: 0.1}
	path := make([]int, 0, 3000)
	for i := range 3000 {
		path = append(path, (i%10)/9)
	}
	want := 0.1 * (10.0 / 12) / ((8.0 / 12) + noticeHours)
	if got := spiky.known(path, everything, spiky.least()); math.Abs(got-want) > 0.01 {
		t.Errorf("with a spike every 50 minutes who knows them pays %.3f, want %.3f", got, want)
	}
}

// TestForesightPays: what is computed for odds alone comes true on a long path, and a policy that sees farther pays no
// more.
func TestForesightPays(t *testing.T) {
	c := chainOf(40, 20, 21, 20, 22, 25, 20, 150, 20, 20, 23, 20, 60, 20, 20, 21)
	r := &reach{chain: c, upkeep: 0.07}
	least := r.least()
	path := c.draw(0, 20000, rand.New(rand.NewPCG(1, 1)))
	var costs []float64
	for _, ahead := range []int{0, 6, 24, everything} {
		costs = append(costs, r.known(path, ahead, least))
	}
	if math.Abs(costs[0]/least-1) > 0.04 {
		t.Errorf("odds alone: computed %.4f, on a path %.4f", least, costs[0])
	}
	for i := 1; i < len(costs); i++ {
		if costs[i] > costs[i-1]*1.01 {
			t.Errorf("who sees farther pays more: %.4f", costs)
		}
	}
}
