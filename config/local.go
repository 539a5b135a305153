package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// Local describes the fake cloud: which market it replays, how fast, and how its machines behave.
type Local struct {
	// Prices are the recorded spot prices: CSV (`timestamp,zone,instance_type,product,price`), the JSON of `aws ec2
	// describe-spot-price-history`, or a [price store](prices.md). Default a built-in sample, if `catalog` is also missing.
	Prices string `yaml:"prices" job:"env,path"`
	// Catalog lists machine types with their on-demand prices: CSV
	// (`region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour,network`). Missing vCPUs follow from EC2's sizes. Required with
	// `prices`.
	Catalog string `yaml:"catalog" job:"env,path"`
	// Advisor is a `spot-advisor-data.json` of Amazon's Spot Instance Advisor, for the policy `capacity`. Default none.
	Advisor string `yaml:"advisor" job:"env,path"`
	// Rules is the billing rule book ([cost](cost.md)). Prices of disk, address and traffic may follow the name. Default
	// `ec2-2017`; `gce-spot` with `provider: gce`.
	Rules string `yaml:"rules"`
	// Start is the market time at which the run begins. Required with `prices`.
	Start time.Time `yaml:"start"`
	// Speed is the number of market seconds per wall-clock second. Default 600; 1 for a program in the sample.
	Speed float64 `yaml:"speed"`
	// Notice is the warning before an eviction, in wall-clock time. Default 4s; 30s with `provider: gce`.
	Notice time.Duration `yaml:"notice" job:"zero"`
	// Boot is how long a machine takes to start, in wall-clock time. Default 500ms.
	Boot time.Duration `yaml:"boot" job:"zero"`
	// FlopsPerVCPU is each vCPU's highest compute rate, per wall-clock second. Default 400k; more for long training.
	FlopsPerVCPU Rate `yaml:"flops_per_vcpu"`
	// Capacity is the maximum number of machines of a type in a zone. Default no limits.
	Capacity map[string]int `yaml:"capacity"`
	// Script lists events in addition to the market's own. Default nothing.
	Script []Action `yaml:"script"`
}

// What a script can do, in the fake cloud's words.
const (
	DoEvict      = "evict"       // take transient machines back with the usual notice
	DoEvictNow   = "evict-now"   // take transient machines back without notice
	DoKill       = "kill"        // break transient machines: no notice, no eviction
	DoRebalance  = "rebalance"   // recommend leaving transient machines
	DoNoCapacity = "no-capacity" // sell nothing for a while
	DoSlowStart  = "slow-start"  // let machines start later
	DoThrottle   = "throttle"    // refuse all requests for a while
)

// Action is one action of the fake cloud.
type Action struct {
	// At is the time since `local.start`. Required.
	At time.Duration `yaml:"at" job:"required,zero"`
	// Do is the action; see below. Required.
	Do string `yaml:"do" job:"required"`
	// Target selects transient machines. Default `oldest`.
	Target string `yaml:"target"`
	// Count of machines, with any target but `all`. Default 1.
	Count int `yaml:"count"`
	// Of limits the action to a type, a zone, or `zone/type`. Default no limit.
	Of string `yaml:"of"`
	// For is how long the effect lasts; `no-capacity` and `throttle` require it. Default with `slow-start`: until the end.
	For time.Duration `yaml:"for"`
	// Boot is the time to start, in wall-clock time, with `slow-start`. Default none.
	Boot time.Duration `yaml:"boot"`
}

func (c *checker) local() {
	l := &c.job.Local
	if c.job.Cloud != CloudLocal {
		if c.written("local") && c.job.Cloud != "" && !c.broken("cloud") {
			c.fault("local", "is for cloud: local only", "remove it")
		}
		return
	}
	for _, f := range []struct {
		name    string
		missing bool
	}{{"prices", l.Prices == ""}, {"catalog", l.Catalog == ""}, {"start", l.Start.IsZero()}} {
		if l.Sampled() && c.job.Provider != "gce" && !c.job.IsHosts() {
			break
		}
		if path := "local." + f.name; f.missing && !c.written(path) {
			c.fault(path, "is missing; cloud: local replays a recorded market", "below local:, add "+example(path))
		}
	}
	c.path("local.prices", &l.Prices)
	c.path("local.catalog", &l.Catalog)
	if l.Advisor != "" {
		c.path("local.advisor", &l.Advisor)
	}
	base, _, _ := strings.Cut(l.Rules, "+")
	c.oneOf("local.rules", base, market.RuleNames()...)
	if _, err := market.Rules(l.Rules); err != nil && slices.Contains(market.RuleNames(), base) {
		c.fault("local.rules", err.Error(), "write fees such as "+base+"+disk=20x0.08+address=0.005+traffic=5x0.01@ZONE")
	}
	if l.Speed < 1 || l.Speed > 1e6 {
		c.fault("local.speed", fmt.Sprintf("%v is out of range", l.Speed), "write 1 (as the clock goes) to 1000000, such as 600")
	}
	for i := range l.Script {
		c.action(fmt.Sprintf("local.script[%d]", i), &l.Script[i])
	}
}

// actionFields are the fields that an action uses, besides at and do; true: required.
var actionFields = map[string]map[string]bool{
	DoEvict:      {"target": false, "count": false, "of": false},
	DoEvictNow:   {"target": false, "count": false, "of": false},
	DoKill:       {"target": false, "count": false, "of": false},
	DoRebalance:  {"target": false, "count": false, "of": false},
	DoNoCapacity: {"of": false, "for": true},
	DoSlowStart:  {"of": false, "for": false, "boot": true},
	DoThrottle:   {"for": true},
}

func (c *checker) action(path string, a *Action) {
	c.oneOf(path+".do", a.Do, DoEvict, DoEvictNow, DoKill, DoRebalance, DoNoCapacity, DoSlowStart, DoThrottle)
	uses, ok := actionFields[a.Do]
	if !ok {
		return
	}
	for _, name := range []string{"target", "count", "of", "for", "boot"} {
		field := path + "." + name
		needed, used := uses[name]
		switch {
		case !used && c.written(field):
			c.fault(field, "has no meaning for do: "+a.Do, "remove it")
		case needed && !c.written(field):
			c.fault(field, "is missing; do: "+a.Do+" needs it", "add "+example(field))
		}
	}
	c.atLeast(path+".count", a.Count, 1)
	c.oneOf(path+".target", a.Target, "oldest", "newest", "random", "all")
	if _, aims := uses["target"]; !aims {
		return
	}
	setDefault(&a.Target, "oldest", a.Target != "")
	if a.Target == "all" && c.written(path+".count") {
		c.fault(path+".count", "has no meaning for target: all", "remove it, or write target: oldest")
	}
	if a.Target != "all" {
		setDefault(&a.Count, 1, a.Count != 0)
	}
}
