package hazard

import "fmt"

// What is assumed of machines whose provider reports nothing.
const (
	// ec2Month is the mean of the middles of the bands of the Spot Instance Advisor of June 2025 over the 894 Linux types of us-east-1:
	// 192 below 5 %, 138 to 10 %, 81 to 15 %, 82 to 20 %, and 401 above, which count as 28 %.
	ec2Month = 0.175
	// gceHour: of 1,063 preemptible machines of Compute Engine that were watched for 7,892 hours in 2019, 287 were preempted before
	// their 24 hours were over (Kadupitiya, Jadhao and Sharma, arXiv 1911.05160).
	gceHour = 287.0 / 7892
)

// Assumed is the rate, in evictions per machine hour, of a provider's machines that nothing is known of, and what it rests on.
func Assumed(provider string) (perHour float64, says string) {
	if provider == "gce" {
		return gceHour, fmt.Sprintf("assumed: a machine is preempted once in %.0f hours, as 1,063 were in 2019 (arXiv 1911.05160)", 1/gceHour)
	}
	return OfMonth(ec2Month), fmt.Sprintf("assumed: %.3g %% of machines a month, the Spot Instance Advisor's mean over the types of us-east-1 in June 2025", 100*ec2Month)
}
