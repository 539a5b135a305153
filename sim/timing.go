package sim

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/elasticity/tempo"
)

// Timing is how long things take, in market time: everything a simulated run knows of reality apart from prices and
// compute rates, and what calibration measures. The controller's timeouts are in tempo.Settings.
type Timing struct {
	Speed float64 // market seconds per wall-clock second, for the journal

	Launch    time.Duration // from the request for machines until the provider's answer
	Boot      time.Duration // from the launch until the agent runs
	Start     time.Duration // from then until it is ready for work
	Notice    time.Duration // notice before an eviction
	NoticeLag time.Duration // from the notice until the controller knows
	PriceLag  time.Duration // from a price change until the controller knows
	EndLag    time.Duration // from a machine's end until the provider's report reaches the controller

	Reply  time.Duration // from a command to a machine until its answer
	Load   time.Duration // reading splits
	Move   time.Duration // handing over one partition
	Cut    time.Duration // delivering a cut once its clock is complete
	Export time.Duration // reading and saving all tables
	// Clock is the time that each working machine adds to a clock apart from computing: reading rows, committing,
	// waiting for the slowest. On one computer that simulates all machines, they share its cores.
	Clock time.Duration
}

// Undisturbed returns how long the work takes identical machines that share its splits, in market time, and how much of
// a clock they do not compute: they exchange parameters, or wait for the one with the most splits.
func (c *Config) Undisturbed(machines int, rate float64) (length, beside time.Duration) {
	perMachine := rate * c.FLOPSPerVCPU / c.Timing.Speed
	computing := c.Job.Work / (float64(machines) * perMachine)
	longest, clocks := computing, float64(max(c.Job.Clocks, 1))
	if c.Programs == nil {
		splits := cmp.Or(c.Job.Splits, machines)
		working := min(machines, splits)
		if !c.Job.Coarse {
			longest = c.Job.Work * float64((splits+working-1)/working) / float64(splits) / perMachine
		}
		longest += clocks * float64(working) * c.Timing.Clock.Seconds()
	}
	return span(longest), span((longest - computing) / clocks)
}

// span returns seconds as a duration, limited to a length beyond any plan.
func span(seconds float64) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

// At returns the same run at a place, with its timing and its settings.
func (c Config) At(p tempo.Place) Config {
	c.Settings, c.Timing = tempo.Of(p), local(p)
	if p.Remote {
		c.Timing = remote(p)
	}
	return c
}

// local returns the fake cloud's timing, as measured on the journals of examples/demo.yaml (two cores; 17 machines):
// ready 1.52 to 1.66 s after the request with a boot of 1.5 s; a clock of 16 machines took 14 to 17 ms longer than its
// work at the declared rates, and one of a single machine 2 ms; notices came 0.19 s and ends 0.08 to 0.18 s late.
func local(p tempo.Place) Timing {
	market := func(wall time.Duration) time.Duration {
		return time.Duration(float64(wall) * p.Speed).Round(time.Millisecond)
	}
	const ms = time.Millisecond
	return Timing{
		Speed:  p.Speed,
		Launch: market(5 * ms), Boot: market(p.Boot), Start: market(80 * ms),
		Notice: market(p.Notice), NoticeLag: market(190 * ms), PriceLag: market(200 * ms), EndLag: market(130 * ms),
		Reply: market(4 * ms), Load: market(20 * ms), Move: market(20 * ms), Cut: market(10 * ms), Export: market(150 * ms),
		Clock: market(15 * ms / 16),
	}
}

// remote returns the timing assumed for real clouds: a machine works after the boot time that decisions assume
// (tempo.RemoteBoot), and notices are polled every five seconds, as AWS recommends. None of it was measured here. A
// clock's overhead apart from computing is left out.
func remote(p tempo.Place) Timing {
	const launch = 5 * time.Second
	return Timing{
		Speed:  1,
		Launch: launch, Boot: p.Boot - launch, Start: 20 * time.Second,
		Notice: p.Notice, NoticeLag: 5 * time.Second, EndLag: 15 * time.Second,
		Reply: 100 * time.Millisecond, Load: 10 * time.Second, Move: 2 * time.Second, Cut: 5 * time.Second, Export: 30 * time.Second,
	}
}
