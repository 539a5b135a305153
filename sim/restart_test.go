package sim

import (
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// restarting returns the scenario without a reliable tier: four machines, work for four of their hours.
func restarting(t testing.TB, pools ...bidding.Candidate) Config {
	t.Helper()
	cfg := scenario(t, pools...)
	cfg.Reliable, cfg.Policy = elasticity.Reliable{}, bidding.Checkpoint{}
	cfg.Job.Work = 4 * 3600 * 16 * 1000
	return cfg
}

// restless is pool a, whose price exceeded every bid twice a day, and does from 1.5 h to 2.5 h after the start.
func restless() bidding.Candidate {
	var pairs []float64
	for hour := -240.0; hour < -10; hour += 12 {
		pairs = append(pairs, hour, 5, hour+11.5, 100)
	}
	return candidate("a", 4, 24*cent, append(pairs, 0, 5, 1.5, 100, 2.5, 5)...)
}

// TestRestartCalm: no evictions, hours as begun, and occasional checkpoints.
func TestRestartCalm(t *testing.T) {
	r, entries := run(t, restarting(t, a()))
	if !r.Finished() || r.Evictions != 0 || r.Machines != 4 || r.Clocks != 180 || r.Rollbacks != 0 {
		t.Fatalf("%+v", r)
	}
	saves := count(entries, journal.Export)
	if saves < 2 || saves > 5 {
		t.Errorf("%d checkpoints", saves)
	}
	timing := Config{}.At(tempo.Remote(2 * time.Minute)).Timing
	least := 4*time.Hour + 5*time.Minute + time.Duration(saves)*timing.Export
	if r.Runtime < least || r.Runtime > least+2*time.Minute {
		t.Errorf("it took %s, want about %s", r.Runtime, least)
	}
	if want := 4 * 5 * 5 * cent; r.Cost != want {
		t.Errorf("it cost %s, by the rule book %s", r.Cost, want)
	}
	for i, e := range entries {
		if err := e.Validate(); err != nil {
			t.Errorf("line %d: %v", i+1, err)
		}
	}
}

// Machines of the fake cloud train on while a checkpoint is saved, as in real runs.
func TestSavingOnTheFakeCloudStopsNothing(t *testing.T) {
	took := func(every time.Duration) (time.Duration, int) {
		cfg := restarting(t, a()).At(tempo.Place{Speed: 720, Boot: time.Second, Notice: 4 * time.Second, DeadAfter: 3 * time.Second})
		cfg.FLOPSPerVCPU *= 720
		cfg.Checkpoints.Every, cfg.Checkpoints.Fixed = every, true
		r, entries := run(t, cfg)
		if !r.Finished() || r.Clocks != 180 {
			t.Fatalf("%+v", r)
		}
		return r.Runtime, count(entries, journal.Export)
	}
	seldom, few := took(3 * time.Hour)
	often, many := took(6 * time.Minute)
	if many < few+25 || often-seldom > 5*time.Minute {
		t.Errorf("%d checkpoints take %s, and %d %s", many, often, few, seldom)
	}
}

// TestCheckpointsCostWhatIsDeclared: a pause for each, a restart at the beginning, and all work on spot machines takes longer.
func TestCheckpointsCostWhatIsDeclared(t *testing.T) {
	timing := Config{}.At(tempo.Remote(2 * time.Minute)).Timing
	declared := Checkpoints{Model: 3e9, Bandwidth: 100e6}
	if save, restart := declared.Times(timing); save != 30*time.Second || restart != time.Minute {
		t.Errorf("3 GB at 100 MB/s: %s to save, %s to restart", save, restart)
	}
	if save, restart := (Checkpoints{}).Times(timing); save != timing.Export || restart != timing.Start+timing.Load {
		t.Errorf("nothing declared: %s to save, %s to restart", save, restart)
	}
	for _, c := range []Checkpoints{{}, declared, {Save: 5 * time.Minute, Restart: 10 * time.Minute}, {Overhead: 0.25}} {
		cfg := restarting(t, a())
		cfg.Checkpoints = c
		r, entries := run(t, cfg)
		save, restart := c.Times(cfg.Timing)
		work := time.Duration(float64(4*time.Hour) * (1 + c.Overhead))
		want := work + cfg.Timing.Launch + cfg.Timing.Boot + restart + time.Duration(count(entries, journal.Export))*save
		if off := r.Runtime - want; !r.Finished() || off < 0 || off > time.Minute {
			t.Errorf("%+v: it took %s, want %s", c, r.Runtime, want)
		}
	}
	cfg := restarting(t, onDemand(a()))
	without, _ := run(t, cfg)
	cfg.Checkpoints.Overhead = 0.25
	if with, _ := run(t, cfg); with != without {
		t.Errorf("on demand, where nothing is saved on the way: %s with an overhead, %s without", with.Runtime, without.Runtime)
	}
}

// TestRestartCrossing: the price takes the whole fleet, and with it the work since the last checkpoint; another is bought on demand, which
// is cheapest then, and kept to the end.
func TestRestartCrossing(t *testing.T) {
	r, entries := run(t, restarting(t, restless(), onDemand(a())))
	if !r.Finished() || r.Evictions != 4 || r.Machines != 8 || r.Rollbacks != 1 || r.Clocks != 180 {
		t.Fatalf("%+v", r)
	}
	var saved int64
	var charged market.USD
	for _, e := range entries {
		switch {
		case e.Kind == journal.Export:
			saved = e.Clock
		case e.Kind == journal.Rollback:
			if e.Clock != saved || e.LostClocks <= 0 || saved == 0 {
				t.Errorf("went back to clock %d and lost %d; the last checkpoint was at %d", e.Clock, e.LostClocks, saved)
			}
		case e.Kind == journal.Launch && e.T.After(start.Add(time.Hour)) && e.Tier != "reliable":
			t.Errorf("bought %s at %s", e.Pool, e.T)
		case e.Kind == journal.Charge:
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				t.Fatal(err)
			}
			charged += usd
		}
	}
	if charged != r.Cost {
		t.Errorf("the journal's charges come to %s, the ledger to %s", charged, r.Cost)
	}
	if calm, _ := run(t, restarting(t, a(), onDemand(a()))); r.Runtime <= calm.Runtime {
		t.Errorf("it took %s, undisturbed %s", r.Runtime, calm.Runtime)
	}
}

// TestRestartFaults: one machine of four dies; all stop, and continue when another has replaced it.
func TestRestartFaults(t *testing.T) {
	cfg := restarting(t, a())
	cfg.Faults = []Fault{{At: 100 * time.Minute, Do: Kill}}
	r, _ := run(t, cfg)
	if !r.Finished() || r.Machines != 5 || r.Rollbacks != 1 || r.Lost == 0 {
		t.Errorf("%+v", r)
	}
	cfg.Continuous = true
	if r, _ = run(t, cfg); !r.Finished() || r.Machines != 5 || r.Rollbacks != 1 || r.Lost != 0 {
		t.Errorf("saving continuously: %+v", r)
	}
}

// TestRestartWithoutCapacity: with fewer machines than it wants the fleet does not start.
func TestRestartWithoutCapacity(t *testing.T) {
	cfg := restarting(t, a(), onDemand(b()))
	cfg.Capacity = map[market.Pool]int{spot("a"): 3}
	r, entries := run(t, cfg)
	if !r.Finished() || count(entries, journal.LaunchFailed) == 0 {
		t.Fatalf("%+v", r)
	}
	for _, e := range entries {
		if e.Kind == journal.Join && e.Tier != "reliable" {
			t.Errorf("a machine of %s took part", e.Pool)
		}
	}
}

// TestAvailability: machines are available and taken back as recorded, at a constant price.
func TestAvailability(t *testing.T) {
	pool := a()
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	var err error
	pool.Availability, err = market.NewAvailability([]market.AvailabilityPoint{
		{At: at(-24), Count: 4}, {At: at(1), Count: 2}, {At: at(2), Count: 4},
	}, at(100))
	if err != nil {
		t.Fatal(err)
	}
	cfg := restarting(t, pool)
	cfg.Continuous = true
	r, entries := run(t, cfg)
	if !r.Finished() || r.Evictions != 2 || r.Rollbacks != 1 {
		t.Fatalf("%+v", r)
	}
	for _, e := range entries {
		switch {
		case e.Kind == journal.Evicted && !e.Ended.Equal(at(1)):
			t.Errorf("evicted at %s, want %s", e.Ended, at(1))
		case e.Kind == journal.Launch && e.T.After(at(0.5)) && e.T.Before(at(2)):
			t.Errorf("bought at %s, when there were too few", e.T)
		}
	}
	if r.Runtime < 5*time.Hour || r.Runtime > 5*time.Hour+15*time.Minute {
		t.Errorf("it took %s, want four hours of work and one of waiting", r.Runtime)
	}
}

func TestRestartSameInputsSameJournal(t *testing.T) {
	journalOf := func() string {
		cfg := restarting(t, crossing(), b(), onDemand(b()))
		cfg.Faults = []Fault{{At: 50 * time.Minute, Do: Kill, Target: "random"}}
		_, entries := run(t, cfg)
		return text(t, entries)
	}
	if first, second := journalOf(), journalOf(); first != second {
		t.Error("two runs of the same inputs differ")
	}
}

// TestAvailabilityWithReliableTier: the other controller loses what is reclaimed and buys when machines are available again.
func TestAvailabilityWithReliableTier(t *testing.T) {
	pool := a()
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	var err error
	pool.Availability, err = market.NewAvailability([]market.AvailabilityPoint{
		{At: at(-24), Count: 4}, {At: at(1), Count: 1}, {At: at(2), Count: 9},
	}, at(100))
	if err != nil {
		t.Fatal(err)
	}
	r, entries := run(t, scenario(t, pool))
	if !r.Finished() || r.Evictions != 3 || r.Machines != 8 || r.Clocks != 180 {
		t.Fatalf("%+v", r)
	}
	for _, e := range entries {
		if e.Kind == journal.Launch && e.T.After(at(0.5)) && (e.T.Before(at(2)) || e.T.After(at(2.01))) {
			t.Errorf("bought at %s", e.T)
		}
	}
}

// elsewhere returns a pool in another region.
func elsewhere(c bidding.Candidate) bidding.Candidate {
	c.Pool.Region, c.Pool.Zone = "s", "sa"
	return c
}

// TestStateFollowsToAnotherRegion: the pool is gone from 1.5 h to 2.5 h after the start, and another region has an equal one. The fleet
// that restarts there pays once for fetching the checkpoint, in journal and bill; if that costs more than the move saves, or the equal pool
// is in the same region, nothing is fetched.
func TestStateFollowsToAnotherRegion(t *testing.T) {
	for _, c := range []struct {
		name  string
		other bidding.Candidate
		model float64
		want  market.USD
	}{
		{"another region", elsewhere(candidate("b", 4, 24*cent, 0, 6)), 10e9, 20 * cent},
		{"the same region", candidate("b", 4, 24*cent, 0, 6), 10e9, 0},
		{"too much state", elsewhere(candidate("b", 4, 24*cent, 0, 6)), 500e9, 0},
	} {
		cfg := restarting(t, crossing(), c.other, onDemand(a()))
		cfg.Policy, cfg.Deadline = bidding.UniformProgress{}, start.Add(12*time.Hour)
		cfg.Checkpoints = Checkpoints{Model: c.model, Save: 20 * time.Second, Restart: time.Minute}
		r, entries := run(t, cfg)
		if !r.Finished() || r.Moved != c.want {
			t.Errorf("%s: $%s for moves, want $%s: %+v", c.name, r.Moved, c.want, r)
		}
		var bill, moves market.USD
		var bytes int64
		for i, e := range entries {
			if err := e.Validate(); err != nil {
				t.Errorf("line %d: %v", i+1, err)
			}
			if e.Kind == journal.Join && e.From != "" {
				bytes += e.Bytes
			}
			if e.Kind != journal.Charge {
				continue
			}
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				t.Fatal(err)
			}
			bill += usd
			if e.Why == market.MovedNote {
				moves += usd
			}
		}
		if bill != r.Cost || moves != r.Moved || cfg.Rules.Terms().Fees.Moving(bytes) != moves {
			t.Errorf("%s: a bill of $%s, $%s for moves of %d bytes; the ledger has $%s and $%s", c.name, bill, moves, bytes, r.Cost, r.Moved)
		}
	}
}
