package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/store"
	"github.com/tierml/tierml/market/trace"
)

// character is a kind of market that few or no recordings have.
type character struct {
	name  string
	pools int // maximum
	// draw generates a pool's prices over some days, as fractions of its on-demand price. Pools that move together share their seed.
	draw     func(r *rand.Rand, days int, tell func(at time.Duration, share float64))
	together bool
	scarce   bool // machines are reclaimed for lack of capacity, not by price
}

var characters = []character{
	{name: "plateaus above on demand", pools: 3, draw: func(r *rand.Rand, days int, tell func(time.Duration, float64)) {
		share := 0.3
		for at := time.Duration(0); at < daysOf(days); at += soon(r, 2*24*time.Hour) {
			tell(at, share)
			if share = 0.1 + 0.5*r.Float64(); r.IntN(2) == 0 {
				share = 1 + 9*r.Float64()*r.Float64()
			}
		}
	}},
	{name: "spikes of minutes", pools: 3, draw: func(r *rand.Rand, days int, tell func(time.Duration, float64)) {
		for at := time.Duration(0); at < daysOf(days); at += soon(r, 4*time.Hour) {
			for range 1 + r.IntN(3)*r.IntN(3) { // some in succession
				tell(at, 1+9*r.Float64())
				at += soon(r, 90*time.Second)
				tell(at, 0.1+0.3*r.Float64())
				at += soon(r, 4*time.Minute)
			}
		}
	}},
	{name: "recorded now and then", pools: 3, draw: func(r *rand.Rand, days int, tell func(time.Duration, float64)) {
		for at := time.Duration(0); at < daysOf(days); at += soon(r, 3*24*time.Hour) {
			for end := at + soon(r, 12*time.Hour); at < end; at += soon(r, 20*time.Minute) {
				tell(at, math.Exp(r.NormFloat64()-0.8))
			}
		}
	}},
	{name: "one pool", pools: 1, draw: func(r *rand.Rand, days int, tell func(time.Duration, float64)) {
		for at := time.Duration(0); at < daysOf(days); at += soon(r, 2*time.Hour) {
			tell(at, math.Exp(1.2*r.NormFloat64()-0.5))
		}
	}},
	{name: "smooth prices, scarce machines", pools: 4, scarce: true, draw: smooth},
	{name: "zones that move together", pools: 9, together: true, draw: func(r *rand.Rand, days int, tell func(time.Duration, float64)) {
		level := -1.0
		for at := time.Duration(0); at < daysOf(days); at += soon(r, 40*time.Minute) {
			level += 0.3*(-1-level) + 0.6*r.NormFloat64()
			tell(at, math.Exp(level))
		}
	}},
	{name: "at the brink of on demand", pools: 2, draw: func(r *rand.Rand, days int, tell func(time.Duration, float64)) {
		for at := time.Duration(0); at < daysOf(days); at += soon(r, 10*time.Minute) {
			tell(at, []float64{1, 1 + 1e-8, 1 - 1e-8, 0.5, 1, 10}[r.IntN(6)])
		}
	}},
}

// smooth generates prices as they are since bids were abolished: small moves, several times a day.
func smooth(r *rand.Rand, days int, tell func(time.Duration, float64)) {
	share := 0.25 + 0.5*r.Float64()
	for at := time.Duration(0); at < daysOf(days); at += soon(r, 6*time.Hour) {
		tell(at, share)
		share = min(max(share*(1+0.015*r.NormFloat64()), 0.2), 0.95)
	}
}

func daysOf(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// soon returns an exponentially distributed time of at least a second.
func soon(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Second + time.Duration(r.ExpFloat64()*float64(mean)).Truncate(time.Second)
}

// TestGuaranteesOnOtherMarkets needs no data. The markets are written in a form of recordings, and read back.
func TestGuaranteesOnOtherMarkets(t *testing.T) {
	n, seed := guaranteesWanted()
	for k, c := range characters {
		var runs []guarantee
		for i := range max(n, 1) {
			r := rand.New(rand.NewPCG(seed, uint64(1000*i+k+1)))
			runs = append(runs, drawGuarantees(r, c.drawn(t, r), 1+3*min(n, 1))...)
		}
		checkGuarantees(t, runs)
	}
}

// TestGuaranteesThatWereBroken: markets in which runs once cost 1.52 to 1.90 times as much as on demand.
func TestGuaranteesThatWereBroken(t *testing.T) {
	try := func(policy string, r *rand.Rand, c cell) {
		t.Helper()
		checkGuarantees(t, slices.DeleteFunc(drawGuarantees(r, c, 4), func(g guarantee) bool { return g.cfg.Policy.Name() != policy }))
	}
	r := rand.New(rand.NewPCG(42, 2)) // dear machines were replaced while they started
	try("capacity", r, drawnCell(t, r))
	r = rand.New(rand.NewPCG(42, 16005)) // a fleet on demand along with more spot machines than splits
	try("cost-per-work", r, characters[4].drawn(t, r))
	r = rand.New(rand.NewPCG(45, 2002)) // a dear machine replaced one that served, and spending was not checked
	try("cost-per-work", r, characters[1].drawn(t, r))
}

// drawn returns a random market of the character.
func (c *character) drawn(t *testing.T, r *rand.Rand) cell {
	t.Helper()
	rules, err := market.Rules([]string{"ec2-2017", "ec2-pay-bid", "ec2-now", "gce-spot", "gce-preemptible"}[r.IntN(5)])
	if err != nil {
		t.Fatal(err)
	}
	begin, days := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), 11+r.IntN(5)
	points, kinds, common := map[market.Pool][]market.PricePoint{}, map[market.Pool]market.InstanceType{}, r.Uint64()
	for i := range 1 + r.IntN(c.pools) {
		vcpu := 2 << r.IntN(3)
		kind := market.InstanceType{Name: fmt.Sprintf("m%d.large", i), VCPU: vcpu, OnDemand: market.USD(float64(vcpu) * (0.04 + 0.02*r.Float64()) * float64(market.Dollar))}
		if r.IntN(3) == 0 {
			kind.Rate = float64(kind.VCPU) * (0.7 + 0.6*r.Float64())
		}
		pool := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1" + string(rune('a'+i%3)), Type: kind.Name, Class: market.Spot}
		of, level := r, 1.0
		if c.together {
			of, level = rand.New(rand.NewPCG(common, 0)), 0.9+0.2*r.Float64()
		}
		kinds[pool] = kind
		c.draw(of, days, func(at time.Duration, share float64) {
			points[pool] = append(points[pool], market.PricePoint{At: begin.Add(at), Price: market.USD(level * share * float64(kind.OnDemand))})
		})
	}
	for pool, of := range points { // all are known to the end
		points[pool] = append(of, market.PricePoint{At: begin.Add(daysOf(days) + 24*time.Hour), Price: of[len(of)-1].Price})
	}
	var pools []bidding.Candidate
	for _, m := range recordedAs(t, r.IntN(3), trace.Of(points)) {
		p := bidding.Candidate{Pool: m.Pool, Type: kinds[m.Pool], History: m.History}
		if c.scarce {
			p.Availability = scarcity(t, r, begin, days)
		}
		pools = append(pools, p)
	}
	return cell{name: c.name, job: cellJob(rules, pools...)}
}

// recordedAs writes markets as CSV, in EC2's form, or to a price store, and reads them back.
func recordedAs(t *testing.T, form int, markets []trace.Market) []trace.Market {
	t.Helper()
	var file bytes.Buffer
	var err error
	switch form {
	case 0:
		err = trace.Write(&file, trace.LinuxUNIX, markets)
	case 1:
		var records []map[string]string
		for _, m := range markets {
			last, _ := m.History.Last()
			for _, p := range m.History.Points(time.Time{}, last.At) {
				records = append(records, map[string]string{"AvailabilityZone": m.Pool.Zone, "InstanceType": m.Pool.Type,
					"ProductDescription": trace.LinuxUNIX, "SpotPrice": p.Price.String(), "Timestamp": p.At.Format("2006-01-02T15:04:05+00:00")})
			}
		}
		slices.Reverse(records) // EC2 lists the newest first
		err = json.NewEncoder(&file).Encode(map[string]any{"SpotPriceHistory": records})
	default:
		s, err := store.Open(filepath.Join(t.TempDir(), "prices.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Import(markets, "drawn"); err != nil {
			t.Fatal(err)
		}
		read, err := s.Trace(func(market.Pool) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return read.Markets
	}
	if err != nil {
		t.Fatal(err)
	}
	read, err := trace.Read(&file, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return read.Markets
}

// scarcity returns a recording of how many machines were available, in SkyPilot's form: for hours all, some or none.
func scarcity(t *testing.T, r *rand.Rand, begin time.Time, days int) *market.Availability {
	t.Helper()
	const tick = 300
	ticks := make([]int, days*86400/tick)
	for i := 0; i < len(ticks); {
		count := []int{0, 0, 64, 64, 64, r.IntN(64)}[r.IntN(6)]
		for end := i + 1 + int(r.ExpFloat64()*40); i < min(end, len(ticks)); i++ {
			ticks[i] = count
		}
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"gap_seconds": tick}, "data": ticks})
	if err != nil {
		t.Fatal(err)
	}
	probes, err := trace.ReadAvailability(bytes.NewReader(text), begin)
	if err != nil {
		t.Fatal(err)
	}
	return probes.Availability
}
