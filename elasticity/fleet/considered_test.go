package fleet

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// What the journal records about a decision: the chosen pools first, then the cheapest vCPUs, a dozen in all.
func TestConsidered(t *testing.T) {
	var all []bidding.Considered
	var pools []Pool
	for i := range 40 {
		pool := market.Pool{Provider: "ec2", Region: "r", Zone: "z", Type: fmt.Sprintf("t%d", i), Class: market.Spot}
		pools = append(pools, Pool{Pool: pool, Type: market.InstanceType{VCPU: 1 + i%2}})
		all = append(all, bidding.Considered{Pool: pool, Price: market.USD(int64(100-i)) * market.Dollar / 100, HasPrice: i != 39,
			Bid: market.Dollar, MTTF: market.Estimate{Mean: time.Hour, Censored: true}, Chosen: i == 3, Why: fmt.Sprintf("reason %d", i)})
	}
	e := journal.Entry{T: time.Unix(1, 0), Kind: journal.Intent, Token: "a", Pool: pools[3].Pool.String(), Details: consideredText(all, pools)}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := e.IntentDetails()
	if err != nil || len(d.Considered) != maxConsidered {
		t.Fatalf("%d pools, %v", len(d.Considered), err)
	}
	// Two vCPUs cost half as much each: odd types come first, starting with the highest number; the one without a price is last.
	for i, want := range []string{"t3", "t37", "t35", "t33"} {
		if got := d.Considered[i]; got.Pool != "ec2/r/z/"+want+"/spot" || got.Why != "reason "+want[1:] || got.Chosen != (i == 0) ||
			got.MTTF != 3600 || !got.MTTFCensored || got.Price == "" || got.Bid != "1" {
			t.Errorf("place %d is %+v; want %s", i, got, want)
		}
	}
	if consideredText(nil, pools) != nil || consideredText(all, pools[:3]) != nil {
		t.Error("details were made of nothing")
	}
	if rank(all[39], pools[39]) < math.MaxInt32 {
		t.Error("a pool without a price comes before those with one")
	}
}
