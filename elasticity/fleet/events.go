package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// The events of a fleet. A repeated event is harmless.
type (
	// PriceChanged: from At on, a pool's hourly price is Price.
	PriceChanged struct {
		Pool  market.Pool
		At    time.Time
		Price market.USD
	}
	// PricesKnown: every price change until At is known.
	PricesKnown struct{ At time.Time }
	// CapacityChanged: from At on a pool has this many machines to buy or keep, according to recorded availability.
	CapacityChanged struct {
		Pool  market.Pool
		At    time.Time
		Count int
	}
	// Launched answers a Launch with the machines supplied. Refused are the pools that had too few, if there was a choice and the provider
	// reports it.
	Launched struct {
		Token     string
		Instances []provisioner.Instance
		Refused   []provisioner.Refusal
	}
	// LaunchFailed answers a Launch that supplied none. Unsure: an earlier answer to the request was lost, so that even a definite error
	// (such as expired credentials) does not show what had been bought.
	LaunchFailed struct {
		Token   string
		Err     error
		Refused []provisioner.Refusal
		Unsure  bool
	}
	// Listed has all machines that the provider has of this run and its earlier starts, or had until recently. A controller that takes over
	// a run waits for the first; each later one confirms or corrects the fleet's state.
	Listed struct {
		Instances []provisioner.Instance
		Asked     time.Time // time of the query: later launches are not listed
	}
	// InstanceEnded: the provider reports the end of a machine.
	InstanceEnded struct{ Instance provisioner.Instance }
	// ProviderChanged: the provider's calls fail (To is journal.Waiting), work again (Heard), or the run should stop and leave its machines
	// (GivenUp).
	ProviderChanged struct{ To, Why string }
	// Warned: the provider reports that a machine will go, or (Rebalance) that the risk has grown.
	Warned struct {
		ID        step.ID
		Deadline  time.Time
		Rebalance bool
	}
)

func (PriceChanged) Event()    {}
func (PricesKnown) Event()     {}
func (CapacityChanged) Event() {}
func (Launched) Event()        {}
func (LaunchFailed) Event()    {}
func (Listed) Event()          {}
func (InstanceEnded) Event()   {}
func (Warned) Event()          {}
func (ProviderChanged) Event() {}

// A fleet's actions.
type (
	// Launch buys machines; answered by Launched or LaunchFailed.
	Launch struct{ Request provisioner.Request }
	// Terminate ends machines; answered by one InstanceEnded each.
	Terminate struct {
		IDs []provisioner.InstanceID
		Why string
	}
)

func (Launch) Action()    {}
func (Terminate) Action() {}
