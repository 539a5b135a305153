package prepare

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// Hosts finds possible shared hosts on the market.
func Hosts(ctx context.Context, job *config.Job, shared *jobrun.Hosts) (*Job, error) {
	prices, err := LoadMarket(ctx, job)
	if err != nil {
		return nil, err
	}
	if err := prices.Admit(job); err != nil {
		return nil, err
	}
	p := &Job{Job: job, Hosts: shared}
	p.Offers, _ = prices.Offers()
	if p.Choice, err = planner.Resolve(job, p.Offers, prices.Catalog); err != nil {
		return nil, err
	}
	shared.Types = prices.Catalog.Types(p.Choice.Pools[0].Pool.Region)
	for _, o := range p.Offers { // what has a price but is not in the catalog
		if !slices.ContainsFunc(shared.Types, func(t market.InstanceType) bool { return t.Name == o.Type.Name }) {
			shared.Types = append(shared.Types, o.Type)
		}
	}
	return p, nil
}

// DescribeHosts describes what may be bought.
func DescribeHosts(out io.Writer, p *Job) error {
	var kinds []string
	for _, pool := range p.Choice.Pools {
		if name := pool.Pool.Type; pool.Pool.Class == market.Spot && !slices.Contains(kinds, name) {
			kinds = append(kinds, name)
		}
	}
	most := fmt.Sprintf("%d", p.Choice.Want.Machines)
	if p.Choice.Want.VCPU > 0 {
		most = fmt.Sprintf("%d vCPUs", p.Choice.Want.VCPU)
	}
	_, err := fmt.Fprintf(out, "Shared hosts %s: at most %s of %s on spot by policy %s", p.Job.Name, most, strings.Join(kinds, ", "), p.Job.Policy)
	if r := p.Choice.Reliable; err == nil && r.Count > 0 {
		_, err = fmt.Fprintf(out, ",\nand at most %d of %s on demand ($%s an hour each)", r.Count, r.Type.Name, r.Type.OnDemand)
	}
	if err == nil {
		_, err = fmt.Fprint(out, ". Nothing is bought before a job asks for slots.\n")
	}
	return err
}
