package hazard

import (
	"fmt"
	"strings"

	"github.com/tierml/tierml/market"
)

// Assumption is the assumed lifetime of machines whose provider reports nothing, and its basis.
type Assumption struct {
	Life
	// Low and High are the rates of the recordings that differ most, in evictions per machine hour; 0 if there is only one.
	Low, High float64
	Source    string
}

// Says returns the assumption in a sentence.
func (a Assumption) Says() string {
	spread := "one recording"
	if a.Low > 0 {
		spread = fmt.Sprintf("%s to %s by zone and type", hours(a.High), hours(a.Low))
	}
	return fmt.Sprintf("assumed: a machine is evicted once in %s hours, %s (%s)", hours(a.PerHour()), spread, a.Source)
}

func hours(perHour float64) string {
	h := 1 / perHour
	if h >= 100 {
		return fmt.Sprintf("%.0f", h)
	}
	return fmt.Sprintf("%.2g", h)
}

// byAdvisor: the mean of the middles of the bands of the Spot Instance Advisor of June 2025 over the 894 Linux types of us-east-1: 192
// below 5 %, 138 to 10 %, 81 to 15 %, 82 to 20 %, and 401 above, which count as 28 %.
var byAdvisor = Assumption{
	Constant(OfMonth(0.175)), OfMonth(0.025), OfMonth(0.28), "the Spot Instance Advisor's types of us-east-1, June 2025",
}

// preemptible: 1,055 machines in the two zones that had most, with equal weight, fitted by `make -C lab hazard`. Google reclaimed all after
// 24 hours, which is excluded: rule books have it (market.Terms.MaxLife).
var preemptible = Assumption{
	Life{0.219, 1.007, 0.0077}, 0.0131, 0.0332, "preemptible machines of 2019, arXiv 1911.05160",
}

const (
	skypilot = "availability recorded by SkyPilot in 2022 and 2023, NSDI 24"
	bamboo   = "instances recorded by Bamboo in 2020, NSDI 23"
	dime     = "instances recorded for DIME in March 2020, arXiv 2110.14883"
)

// gpus are the recorded models, each with the least number per machine. If only counts of instances were recorded,
// lifetimes have the shape of the V100's. A provider's first one stands for unrecorded models.
var gpus = []struct {
	provider, model string
	count           int
	Assumption
}{
	{"ec2", "V100", 8, Assumption{Life{0.92, 2.331, 0.105}, 0, 0, skypilot}},
	{"ec2", "V100", 1, Assumption{v100, 1 / 16.7, 1 / 0.72, skypilot + ", and instances by Bamboo, NSDI 23"}},
	{"ec2", "K80", 8, Assumption{Life{0.68, 1.33, 0.302}, 1 / 7.1, 1 / 1.6, skypilot + ", and instances for DIME, arXiv 2110.14883"}},
	{"ec2", "K80", 1, Assumption{Life{0.489, 2.27, 0.121}, 1 / 7.7, 1 / 4.2, skypilot + ", and instances by Bamboo, NSDI 23"}},
	{"ec2", "T4", 1, Assumption{v100.At(85 / 199.7), 0, 0, bamboo}},
	{"gce", "V100", 1, Assumption{v100.At(582 / 1978.0), 1 / 3.6, 1 / 1.9, dime + ", and by Bamboo, NSDI 23"}},
	{"gce", "K80", 1, Assumption{v100.At(206 / 154.8), 0, 0, dime}},
	{"gce", "P100", 1, Assumption{v100.At(147 / 153.7), 0, 0, dime}},
}

var v100 = Life{0.798, 1.318, 0.075}

// Assume returns the assumption about a type's machines.
func Assume(provider string, t market.InstanceType) Assumption {
	if t.GPU.Count == 0 {
		if provider == "gce" {
			return preemptible
		}
		return byAdvisor
	}
	if provider != "gce" {
		provider = "ec2"
	}
	model := "V100"
	for _, g := range gpus {
		if g.provider == provider && strings.EqualFold(g.model, t.GPU.Name) {
			model = g.model
		}
	}
	for _, g := range gpus {
		if g.provider == provider && g.model == model && t.GPU.Count >= g.count {
			if !strings.EqualFold(model, t.GPU.Name) {
				g.Source = fmt.Sprintf("taken from the %s: %s", model, g.Source)
			}
			return g.Assumption
		}
	}
	return byAdvisor // unreachable: each model is recorded for machines with one
}
