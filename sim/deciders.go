package sim

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/ps"
)

// Controller returns the configuration of the run's controller: as in a real run (jobrun), except for the
// job's content and its storage.
func (c *Config) Controller() elasticity.Config {
	out := elasticity.Config{
		Settings: c.Settings, NoHeartbeats: true, Run: c.Name,
		Job: elasticity.Job{
			Schema: ps.Schema{Partitions: c.Job.Partitions, Splits: c.Job.Splits, Deterministic: true}, Clocks: c.Job.Clocks,
			Work: c.vcpuHours(), Short: c.Job.Passes,
		},
		Reliable: c.Reliable, Want: c.Want, Pools: c.known(), Policy: c.Policy, Stages: c.Stages,
		MaxDuration: c.MaxDuration, Deadline: c.Deadline, Budget: c.Budget, Overspends: c.Overspends, PerHour: c.PerHour, ValueOfTime: c.ValueOfTime,
		Chooses: c.Allocation != "", Silent: c.Record == nil, Rules: c.Rules, WholeHours: c.Rules.Terms().Increment > 0,
	}
	if c.Job.Standby {
		out.Job.Standby = map[string]string{"passes": "1"}
	}
	if c.Reliable.Count == 0 {
		out.Checkpoints = c.Checkpoints.settings()
	}
	return out
}

// Restarter returns the same for a run by restart from checkpoints.
func (c *Config) Restarter() restart.Config {
	save, again := c.saving()
	out := restart.Config{
		Settings: c.Settings, Run: c.Name, Clocks: c.Job.Clocks, Want: c.Want, Pools: c.known(), Policy: c.Policy,
		Job: bidding.Job{Deadline: c.Deadline, Work: c.vcpuHours(), Budget: c.Budget, Overspends: c.Overspends, PerHour: c.PerHour, SaveTime: save,
			State: int64(c.Checkpoints.Model)},
		Restart: again, Continuous: c.Continuous, MaxDuration: c.MaxDuration, Silent: c.Record == nil, Rules: c.Rules,
	}
	if c.Checkpoints.Fixed {
		out.SaveEvery = c.Checkpoints.Every
	}
	if p := c.Programs; p != nil {
		out.Chooses, out.Restart, out.SaveEvery = c.Allocation != "", c.Again(), p.Every
		out.Job.SaveTime, out.Job.ValueOfTime, out.Job.Undone, out.Job.Together = 0, c.ValueOfTime, c.Undone(), p.Together()
	}
	return out
}

// saving returns how long a checkpoint and a restart take.
func (c *Config) saving() (save, restart time.Duration) {
	save, restart = c.Checkpoints.Times(c.Timing)
	if c.Continuous {
		save = 0
	}
	return save, restart
}

// known returns the pools that the job allows, with the initial knowledge about each.
func (c *Config) known() []elasticity.Pool {
	out := make([]elasticity.Pool, len(c.Pools))
	for i, p := range c.Pools {
		out[i] = elasticity.Pool{
			Pool: p.Pool, Type: p.Type, MaxPrice: p.MaxPrice, Hints: p.Hints, History: p.History.Until(c.Start),
			Availability: p.Availability.Until(c.Start),
		}
	}
	return out
}

// vcpuHours returns the job's work in vCPU hours, as policies measure it.
func (c *Config) vcpuHours() float64 {
	return c.Job.Work * c.Timing.Speed / c.FLOPSPerVCPU / time.Hour.Seconds()
}
