package prepare

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/planner"
)

// The fake cloud's machines are slow, so that small jobs live through a market's day. A job that leaves their rate open gets a higher one
// if its work would take longer than longestWork, in seconds of wall-clock time, on the machines that it requests; but all of these
// together are no faster than fastest, in operations per second, which a core achieves.
const (
	longestWork = 100
	fastest     = 400e6
)

// assumeRate raises the compute rate of the fake cloud's machines, if the job leaves it open, to suit its work.
func assumeRate(job *config.Job, choice planner.Resolved, work float64) {
	if job.Cloud != config.CloudLocal || job.Written("local.flops_per_vcpu") {
		return
	}
	vcpus := float64(choice.Want.VCPU)
	for _, pool := range choice.Pools {
		if n := float64(choice.Want.Machines) * pool.Type.WorkRate(); n > 0 && (vcpus == 0 || n < vcpus) {
			vcpus = n
		}
	}
	if vcpus == 0 {
		return
	}
	rate := min(work/longestWork, fastest) / vcpus
	if rate <= float64(job.Local.FlopsPerVCPU) {
		return
	}
	digit := math.Pow(10, math.Floor(math.Log10(rate))-1)
	rate = math.Ceil(rate/digit) * digit // two digits
	job.Local.FlopsPerVCPU = config.Rate(rate)
	job.Assume("local.flops_per_vcpu", fmt.Sprintf("local.flops_per_vcpu: %s, at which the work takes %.0f s here without disturbance", job.Local.FlopsPerVCPU, work/rate/vcpus))
}
