package hosts_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/hoststest"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

var (
	host  = hosts.Size{VCPU: 4, MemoryMiB: 8000}
	kinds = map[string]hosts.Size{"slot": {VCPU: 4, MemoryMiB: 500}}
)

// served returns a job whose serving takes this many cores, with eight partitions.
func served(id string, cores float64) *hoststest.Job {
	j := &hoststest.Job{ID: id, Type: "slot", Profile: tiers.Profile{Clock: 500 * time.Millisecond}}
	for range 8 {
		j.Profile.Serving = append(j.Profile.Serving, time.Duration(cores*float64(j.Profile.Clock)/8))
	}
	return j
}

// carries gives a job's serving these bytes per second in each direction.
func carries(j *hoststest.Job, in, out float64) *hoststest.Job {
	each := func(rate float64) []int64 {
		return slices.Repeat([]int64{int64(rate * j.Profile.Clock.Seconds() / 8)}, 8)
	}
	j.Profile.In, j.Profile.Out = each(in), each(out)
	return j
}

// Jobs whose cores one host has share it only if its network can carry them, too. Each direction counts by itself.
func TestTheNetworkLimitsSharing(t *testing.T) {
	const link = 100e6
	for _, c := range []struct {
		name  string
		link  float64
		bytes [][2]float64 // in and out, of jobs of half a core each
		hosts int
	}{
		{"network unknown", 0, [][2]float64{{60e6, 60e6}, {60e6, 60e6}}, 1},
		{"bytes unknown", link, [][2]float64{{}, {}}, 1},
		{"both send", link, [][2]float64{{5e6, 60e6}, {5e6, 60e6}}, 2},
		{"both receive", link, [][2]float64{{60e6, 5e6}, {60e6, 5e6}}, 2},
		{"one sends, one receives", link, [][2]float64{{90e6, 5e6}, {5e6, 90e6}}, 1},
		{"within the limit", link, [][2]float64{{52e6, 52e6}, {52e6, 52e6}}, 1}, // 4 % of their speed
		{"a third one fits", link, [][2]float64{{60e6, 60e6}, {60e6, 60e6}, {35e6, 35e6}}, 2},
		{"one needs three hosts", link, [][2]float64{{10e6, 250e6}}, 3},
	} {
		w := hoststest.NewLinked(host, c.link, kinds)
		for i, b := range c.bytes {
			j := served(fmt.Sprint("job", i), 0.5)
			if b != [2]float64{} {
				carries(j, b[0], b[1])
			}
			if err := w.Arrive(j); err != nil {
				t.Fatal(err)
			}
			settle(t, w)
		}
		if w.Hosts() != c.hosts || w.Loss() > hoststest.Limit {
			t.Errorf("%s: %d hosts, want %d; a job loses %.3f: %q", c.name, w.Hosts(), c.hosts, w.Loss(), w.Last)
		}
	}
}

// Jobs that need cores and network in any proportion share hosts without losing more than the limit, on at most a tenth more hosts than an
// exhaustive search uses for whole jobs.
func TestFewHostsServeJobsOfAnyKind(t *testing.T) {
	const link = 100e6
	sum, best := 0, 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 46))
		w := hoststest.NewLinked(host, link, kinds)
		var needs [][3]float64 // shares of a host
		for n := range 4 + r.IntN(6) {
			need := [3]float64{0.05 + 0.6*r.Float64(), 0.6 * r.Float64(), 0.6 * r.Float64()}
			j := carries(served(fmt.Sprint("job", n), need[0]*float64(host.VCPU)), need[1]*link, need[2]*link)
			if err := w.Arrive(j); err != nil {
				t.Fatal(err)
			}
			needs = append(needs, need)
			settle(t, w)
		}
		if sum, best = sum+w.Hosts(), best+leastOf(needs); w.Loss() > hoststest.Limit {
			t.Errorf("seed %d: a job loses %.3f: %q", seed, w.Loss(), w.Last)
		}
	}
	if t.Logf("%d hosts in all; %d would do for whole jobs", sum, best); float64(sum) > 1.1*float64(best) {
		t.Errorf("%d hosts, and %d would do", sum, best)
	}
}

// leastOf returns the minimum number of hosts for jobs with these shares of each resource, if each is served on one host.
func leastOf(needs [][3]float64) int {
	var fits func(i int, used [][3]float64) bool
	fits = func(i int, used [][3]float64) bool {
		if i == len(needs) {
			return true
		}
		for k := range used {
			was := used[k]
			for r := range was {
				used[k][r] += needs[i][r]
			}
			if slices.Max(used[k][:]) <= 1 && fits(i+1, used) {
				return true
			}
			if used[k] = was; was == ([3]float64{}) {
				break // the other empty ones are the same
			}
		}
		return false
	}
	for n := 1; ; n++ {
		if fits(0, make([][3]float64, n)) {
			return n
		}
	}
}

// settle lets minutes pass until the book makes no more decisions.
func settle(t *testing.T, w *hoststest.World) {
	t.Helper()
	for quiet, n := 0, 0; quiet < 8; n++ {
		news, err := w.Pass(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if quiet++; news {
			quiet = 0
		}
		if n > 300 {
			t.Fatalf("the book does not come to rest: %s", w.Last)
		}
	}
}

// fewest returns the minimum number of hosts that can serve jobs with these cores, if each is served on one host.
func fewest(cores []float64, each float64) int {
	slices.SortFunc(cores, func(a, b float64) int { return cmp.Compare(b, a) })
	var fits func(i int, free []float64) bool
	fits = func(i int, free []float64) bool {
		if i == len(cores) {
			return true
		}
		for k := range free {
			if cores[i] <= free[k]+1e-9 {
				free[k] -= cores[i]
				if fits(i+1, free) {
					return true
				}
				free[k] += cores[i]
			}
		}
		return false
	}
	for n := 1; ; n++ {
		if free := slices.Repeat([]float64{each}, n); fits(0, free) {
			return n
		}
	}
}

// Jobs get hosts of their own until they have been measured (section 3.3.1), and then share as few as can serve them (3.3.2), whichever
// jobs came and went.
func TestFewHostsServeManyJobs(t *testing.T) {
	sum, best := 0, 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := hoststest.New(host, kinds)
		var there []*hoststest.Job
		for n := range 6 + r.IntN(8) {
			if len(there) > 3 && r.IntN(4) == 0 {
				i := r.IntN(len(there))
				w.Leave(there[i].ID)
				there = slices.Delete(there, i, i+1)
				continue
			}
			j := served(fmt.Sprint("job", n), 0.2+2.5*r.Float64())
			if err := w.Arrive(j); err != nil {
				t.Fatal(err)
			}
			there = append(there, j)
			settle(t, w)
		}
		settle(t, w)
		var cores []float64
		for _, j := range there {
			cores = append(cores, j.Profile.Cores())
		}
		least := fewest(cores, float64(host.VCPU))
		if sum, best = sum+w.Hosts(), best+least; w.Hosts() > least { // fewer suffice if a job's partitions are on two
			t.Errorf("seed %d: %d hosts for %d jobs of %.2f cores, %d would do", seed, w.Hosts(), len(there), cores, least)
		}
		if w.Loss() > hoststest.Limit {
			t.Errorf("seed %d: a job loses %.3f", seed, w.Loss())
		}
	}
	t.Logf("%d hosts in all; %d would do for whole jobs", sum, best)
}

// A job that one host cannot serve is lent slots on others until no job loses more than the limit (section 3.3.2, figure 10), and no host
// is bought in vain.
func TestABigJobIsLentSlots(t *testing.T) {
	w := hoststest.New(host, kinds)
	if err := w.Arrive(served("big", 9)); err != nil {
		t.Fatal(err)
	}
	settle(t, w)
	if w.Hosts() != 3 || w.Loss() > hoststest.Limit {
		t.Errorf("%d hosts of 4 vCPUs for 9 cores, at a loss of %.3f: %q", w.Hosts(), w.Loss(), w.Last)
	}
}

// If no whole slot fits on another host, two smaller ones serve instead: the paper packs tensors one by one (section 3.3.2).
func TestASlotIsDivided(t *testing.T) {
	w := hoststest.New(host, kinds)
	for i, cores := range []float64{3, 3, 1.8} {
		if err := w.Arrive(served(fmt.Sprint("job", i), cores)); err != nil {
			t.Fatal(err)
		}
		settle(t, w)
	}
	if w.Hosts() != 2 || w.Loss() > 0 {
		t.Errorf("%d hosts of 4 vCPUs for 3, 3 and 1.8 cores, at a loss of %.3f: %q", w.Hosts(), w.Loss(), w.Last)
	}
}

// Partitions are spread by their serving load, not by number.
func TestPartitionsAreSpreadByLoad(t *testing.T) {
	w := hoststest.New(host, kinds)
	j := served("job", 8)
	for i := range j.Profile.Serving { // 2.4 cores and seven times .6
		j.Profile.Serving[i] = 6 * j.Profile.Clock / 10
	}
	j.Profile.Serving[0] = 24 * j.Profile.Clock / 10
	if err := w.Arrive(j); err != nil {
		t.Fatal(err)
	}
	settle(t, w)
	if w.Hosts() != 2 || w.Loss() > 0 {
		t.Errorf("%d hosts of 4 vCPUs for 6.6 cores, at a loss of %.3f: %q", w.Hosts(), w.Loss(), w.Last)
	}
}

// A change stays, unless a job has lost more than the limit, even if its neighbours do fewer than a hundred clocks before it is judged.
func TestSlowClocksShareAHost(t *testing.T) {
	w := hoststest.New(host, kinds)
	for i := range 3 {
		j := served(fmt.Sprint("job", i), 1.2)
		j.Profile.Clock *= 40
		for k := range j.Profile.Serving {
			j.Profile.Serving[k] *= 40
		}
		if err := w.Arrive(j); err != nil {
			t.Fatal(err)
		}
		settle(t, w)
	}
	if w.Hosts() != 1 {
		t.Errorf("%d hosts for three jobs of 1.2 cores: %q", w.Hosts(), w.Last)
	}
}

// Slots of a measured job that only serves leave vCPUs to others; slots that also work on splits keep what they were granted. Slots that
// together have more than their host divide its charges.
func TestMeasuredServersMakeRoom(t *testing.T) {
	for _, serves := range []bool{true, false} {
		w := hoststest.New(host, kinds)
		w.Works = !serves
		for n := range 3 {
			if err := w.Arrive(served(fmt.Sprint("job", n), 0.5)); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				if _, err := w.Pass(time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := 3
		if serves {
			want = 1
		}
		if w.Hosts() != want {
			t.Errorf("serves alone %v: %d hosts for three jobs, not %d", serves, w.Hosts(), want)
		}
		total, from := market.USD(0), time.Unix(0, 0).UTC()
		bill := w.Book.BillOf(0, w.Now, func(step.ID) (hosts.Size, []market.Charge) {
			return host, []market.Charge{{From: from, To: w.Now, Amount: market.Dollar}}
		})
		for job, usd := range bill.Jobs {
			if total += usd; usd <= 0 {
				t.Errorf("serves alone %v: %s pays %s", serves, job, usd)
			}
		}
		if serves && total > 3*market.Dollar { // each had a host of its own first
			t.Errorf("jobs pay %s", total)
		}
	}
}
