package sim

import "time"

// What a run on the fake cloud (internal/localrun) and its simulation are both set to.
//
// Machines are near: everything is looked at more often than on a cloud that limits calls.
const (
	LaptopBrokenAfter = 300 * time.Millisecond
	LaptopJoinWait    = 1500 * time.Millisecond
	LaptopNoticeWait  = 150 * time.Millisecond
	LaptopCutEvery    = 1500 * time.Millisecond
	LaptopDrainMargin = 1200 * time.Millisecond
)

// In market time. The paper's switch waits for five minutes: the policy is asked more often than that.
const (
	LaptopPlanEvery     = time.Minute
	LaptopRetryCapacity = 10 * time.Minute
)

// Timing is how long things take, in market time. It is what a simulated run knows of reality beside prices and
// compute rates: the calibration.
type Timing struct {
	Speed float64 // market seconds per wall-clock second, for the journal

	Launch    time.Duration // from the wish for machines until the provider's answer
	Boot      time.Duration // from the launch until the agent runs
	Start     time.Duration // from then until it is ready to work
	Notice    time.Duration // warning before an eviction
	NoticeLag time.Duration // from the warning until the controller knows
	PriceLag  time.Duration // from a price change until the controller knows
	EndLag    time.Duration // from a machine's end until the controller knows from the provider

	Reply  time.Duration // a command to a machine and its answer
	Load   time.Duration // reading splits
	Move   time.Duration // handing one partition over
	Cut    time.Duration // delivering a cut once its clock is complete
	Export time.Duration // reading and saving all tables
	// Clock is what each machine that works on a clock adds to it beside computing: reading rows, committing, waiting for the
	// slowest. On a computer that plays all machines they share its cores.
	Clock time.Duration

	// What the controller is set to.
	CutEvery, BrokenAfter, JoinWait, NoticeWait, DrainMargin, RetryCapacity, PlanEvery time.Duration
}

// Laptop is the timing of a run on the fake cloud at a speed, with notice and boot in wall-clock time. The
// controller's settings are those of internal/localrun. The rest was measured on the journals of examples/demo.yaml
// (two cores; 17 machines): ready 1.52 to 1.66 s after the wish with a boot of 1.5 s; a clock of 16 machines took 14
// to 17 ms longer than its work at the declared rates, and one of a single machine 2 ms; notices came 0.19 s and ends 0.08 to 0.18 s late.
func Laptop(speed float64, notice, boot time.Duration) Timing {
	market := func(wall time.Duration) time.Duration {
		return time.Duration(float64(wall) * speed).Round(time.Millisecond)
	}
	const ms = time.Millisecond
	return Timing{
		Speed:  speed,
		Launch: market(5 * ms), Boot: market(boot), Start: market(80 * ms),
		Notice: market(notice), NoticeLag: market(190 * ms), PriceLag: market(200 * ms), EndLag: market(130 * ms),
		Reply: market(4 * ms), Load: market(20 * ms), Move: market(20 * ms), Cut: market(10 * ms), Export: market(150 * ms),
		Clock:    market(15 * ms / 16),
		CutEvery: market(LaptopCutEvery), BrokenAfter: market(LaptopBrokenAfter), JoinWait: market(LaptopJoinWait),
		NoticeWait: market(LaptopNoticeWait), DrainMargin: market(LaptopDrainMargin),
		RetryCapacity: LaptopRetryCapacity, PlanEvery: LaptopPlanEvery,
	}
}

// EC2 is the timing assumed of real EC2: 5 minutes from the wish for a machine until it works, as TierML
// (CMU-PDL-16-102) assumes; EC2's two-minute notice, looked for every five seconds as AWS recommends. These are
// assumptions: nothing of them has been measured here. What a clock takes beside computing is left out.
func EC2() Timing {
	return Timing{
		Speed:  1,
		Launch: 5 * time.Second, Boot: 4*time.Minute + 25*time.Second, Start: 20 * time.Second,
		Notice: 2 * time.Minute, NoticeLag: 5 * time.Second, EndLag: 15 * time.Second,
		Reply: 100 * time.Millisecond, Load: 10 * time.Second, Move: 2 * time.Second, Cut: 5 * time.Second, Export: 30 * time.Second,
		CutEvery: 15 * time.Minute, BrokenAfter: 30 * time.Second, JoinWait: time.Minute, NoticeWait: 3 * time.Second,
		DrainMargin: 2 * time.Minute, RetryCapacity: 10 * time.Minute, PlanEvery: 10 * time.Minute,
	}
}

// ByChangeover is the timing that Can't Be Late (NSDI 24, section 3.1) reckons with: a fleet works a changeover after it
// was bought, the loss of what was not saved included, and everything else takes no time.
func ByChangeover(changeover time.Duration) Timing {
	return Timing{Speed: 1, Boot: changeover, RetryCapacity: 10 * time.Minute, PlanEvery: 24 * time.Hour}
}
