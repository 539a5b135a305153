package prepare

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/planner/pricelist"
	"github.com/tierml/tierml/providers"
)

// LoadMarket returns a job's market: recorded, or as its cloud reports it.
func LoadMarket(ctx context.Context, job *config.Job) (*local.Market, error) {
	if job.Installation() != nil && job.Local.Start.IsZero() {
		job.Local.Start = time.Now().UTC().Truncate(time.Second)
	}
	if job.Installation() == nil {
		return local.Load(job)
	}
	p, err := providers.Of(job)
	if err != nil {
		return nil, err
	}
	m, err := p.Market(ctx, job, pricelist.DefaultFolder())
	return m, providers.Advice(job, err)
}

// TryCloud checks whether a real cloud would sell what the plan may buy, without buying it.
func (p *Job) TryCloud(ctx context.Context, out io.Writer) error {
	if p.Job.Installation() == nil {
		return nil
	}
	var pools []market.Pool
	if p.Choice.Reliable.Count > 0 {
		pools = append(pools, p.Choice.Reliable.Pool)
	}
	for _, c := range p.Choice.Pools {
		pools = append(pools, c.Pool)
	}
	provider, err := providers.Of(p.Job)
	if err != nil {
		return err
	}
	found, err := provider.Try(ctx, p.Job, pools)
	if err == nil && found != "" {
		fmt.Fprintf(out, "\n%s\n", found)
	}
	return providers.Advice(p.Job, err)
}

// TimeOf returns how a job's market time relates to the wall clock.
func TimeOf(job *config.Job) clock.Mapping {
	if job.Installation() != nil {
		job.Local.Start = time.Now().UTC().Truncate(time.Second)
		return clock.Real()
	}
	return clock.Mapping{Market: job.Local.Start, Speed: job.Local.Speed} // market time starts with the machines
}

// WhatMachinesAre describes what a run's machines really are.
func WhatMachinesAre(job *config.Job) string {
	at := job.Installation()
	if at == nil && job.Run != "" {
		return "Machines are local processes here, which share this computer.\n"
	}
	if at == nil {
		return fmt.Sprintf("Machines are local processes here. Each is held to its type's declared rate of %s floating-point operations a\n"+
			"second and vCPU by pacing in its agent.\n", job.Local.FlopsPerVCPU)
	}
	where, mark := at.Name, "the cluster "
	if at.Endpoint != "" {
		where = at.Endpoint
	} else if at.Region != "" { // empty: the job server finds it
		where += " in " + at.Region
	}
	if p, err := providers.Of(job); err == nil {
		mark = p.Facts().Mark
	}
	return "Machines are bought from " + where + ", for real money. They end with the run; what should be left behind carries\n" +
		mark + at.Cluster + ".\n"
}
