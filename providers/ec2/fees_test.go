package ec2

import (
	"errors"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers/ec2/api"
)

// An address is billed if a subnet assigns one, or if that is unknown.
func TestAddressesAreBilledWhereSubnetsGiveThem(t *testing.T) {
	own := map[string]string{"us-west-2a": "subnet-a", "us-west-2b": "subnet-b"}
	for _, c := range []struct {
		subnets map[string]string
		found   []api.Subnet
		err     error
		rules   string
		says    string
	}{
		{nil, nil, nil, "ec2-now+disk=16x0.08+address=0.005", "default subnets"},
		{own, []api.Subnet{{ID: "subnet-a"}, {ID: "subnet-b", Public: true}}, nil, "ec2-now+disk=16x0.08+address=0.005", "as the subnets give one"},
		{own, []api.Subnet{{ID: "subnet-a"}, {ID: "subnet-b"}}, nil, "ec2-now+disk=16x0.08", "a disk of 16 GiB, $0.001753425 an hour"},
		{own, nil, errors.New("denied"), "ec2-now+disk=16x0.08+address=0.005", "not known whether the subnets give one (denied)"},
	} {
		b := &Block{Subnets: c.subnets}
		b.Disk.MiB = 16 << 10
		job := &config.Job{Block: b}
		job.Local.Rules = "ec2-now" + b.feesOf(true).String()
		m := &local.Market{}
		billed(t.Context(), m, job, &amazon{subnets: c.found, needs: c.err})
		if said := strings.Join(m.Sources, "\n"); job.Local.Rules != c.rules || !strings.Contains(said, c.says) || !strings.Contains(said, "Not counted: traffic between zones") {
			t.Errorf("%v: rules %s, want %s; %q, want %q", c.found, job.Local.Rules, c.rules, said, c.says)
		}
		if _, err := job.Rules(); err != nil {
			t.Error(err)
		}
	}
}

// The machine of `tierml server start` is on no run's bill: a plan states its price.
func TestPlanStatesPriceOfServerMachine(t *testing.T) {
	b := &Block{}
	b.Region, b.Controller.Type = "us-west-2", "t3.small"
	job, m := &config.Job{Block: b}, &local.Market{}
	job.Local.Rules = "ec2-now"
	for want, catalog := range map[string]*market.Catalog{
		"the controller's own machine, taxes": market.NewCatalog("us-west-2", nil),
		"the controller's own machine (of `tierml server start`: t3.small, $0.0208 an hour and its disk), taxes": market.NewCatalog("us-west-2",
			[]market.InstanceType{{Name: "t3.small", VCPU: 2, OnDemand: 208 * market.Dollar / 10000}}),
	} {
		m.Catalog, m.Sources = catalog, nil
		if billed(t.Context(), m, job, &amazon{}); !strings.Contains(strings.Join(m.Sources, "\n"), want) {
			t.Errorf("%q, want %q", m.Sources, want)
		}
	}
}
