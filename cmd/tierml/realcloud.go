package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/planner/local"
	"github.com/tierml/tierml/internal/pricelist"
	"github.com/tierml/tierml/market"
)

// loadMarket returns the market of a job: what is recorded, or what its cloud tells.
func loadMarket(ctx context.Context, job *config.Job) (*local.Market, error) {
	if job.Installation() != nil && job.Local.Start.IsZero() {
		job.Local.Start = time.Now().UTC().Truncate(time.Second)
	}
	switch job.Cloud {
	case config.CloudEC2:
		return ec2Market(ctx, job)
	case config.CloudGCE:
		account, err := openGCE(ctx, job, "")
		if err != nil {
			return nil, err
		}
		defer account.Close()
		m, err := localrun.GCEMarket(ctx, job, account, pricelist.DefaultFolder())
		return m, gceAdvice(err)
	}
	return local.Load(job)
}

// tryCloud asks a real cloud whether it would sell what the plan may buy, without buying any.
func (p *preparedJob) tryCloud(ctx context.Context, out io.Writer) error {
	if p.job.Installation() == nil {
		return nil
	}
	var pools []market.Pool
	if p.choice.Reliable.Count > 0 {
		pools = append(pools, p.choice.Reliable.Pool)
	}
	for _, c := range p.choice.Pools {
		pools = append(pools, c.Pool)
	}
	try := tryEC2
	if p.job.Cloud == config.CloudGCE {
		try = tryGCE
	}
	said, err := try(ctx, p.job, pools)
	if err == nil {
		fmt.Fprintf(out, "\n%s\n", said)
	}
	return err
}

// timeOf is how a job's market time follows from the clock on the wall.
func timeOf(job *config.Job) clock.Mapping {
	if job.Installation() != nil {
		job.Local.Start = time.Now().UTC().Truncate(time.Second)
		return clock.Real()
	}
	return clock.Mapping{Market: job.Local.Start, Speed: job.Local.Speed} // from when the machines' time begins
}

// whatMachinesAre says what a run's machines really are.
func whatMachinesAre(job *config.Job) string {
	at := job.Installation()
	if at == nil {
		return fmt.Sprintf("Machines are local processes here. Each is held to its type's declared rate of %s floating-point operations a\n"+
			"second and vCPU by pacing in its agent.\n", job.Local.FlopsPerVCPU)
	}
	where, mark := at.Name+" in "+at.Region, "the tag tierml:cluster="
	if at.Endpoint != "" {
		where = at.Endpoint
	}
	if job.Cloud == config.CloudGCE {
		mark = "the label tierml-cluster="
	}
	return "Machines are bought from " + where + ", for real money. They end with the run; what should be left behind carries\n" +
		mark + at.Cluster + ".\n"
}
