package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// The events of a fleet. A repeated event is harmless.
type (
	// PriceChanged: a pool's price per hour is Price from At on.
	PriceChanged struct {
		Pool  market.Pool
		At    time.Time
		Price market.USD
	}
	// PricesKnown: every price change until At is known.
	PricesKnown struct{ At time.Time }
	// CapacityChanged: from At on a pool has this many machines to buy or keep, by a recording of availability.
	CapacityChanged struct {
		Pool  market.Pool
		At    time.Time
		Count int
	}
	// Launched answers a Launch: these machines were got. Refused are the pools that had too few, where there was a choice and
	// the provider says so.
	Launched struct {
		Token     string
		Instances []provisioner.Instance
		Refused   []provisioner.Refusal
	}
	// LaunchFailed answers a Launch: none were got. Unsure: it was requested before and that answer is lost, so that even a
	// definite error (credentials have expired in between) does not tell what had been bought.
	LaunchFailed struct {
		Token   string
		Err     error
		Refused []provisioner.Refusal
		Unsure  bool
	}
	// Listed: these are all machines that the provider has of this run, and of earlier starts of it, or had until lately. A
	// controller that takes a run over waits for the first; each later one confirms or corrects the fleet's state.
	Listed struct {
		Instances []provisioner.Instance
		Asked     time.Time // time of the query: later launches are not listed
	}
	// InstanceEnded: the provider says that a machine is gone.
	InstanceEnded struct{ Instance provisioner.Instance }
	// ProviderChanged: the provider's calls fail (To is journal.Waiting), work again (Heard), or the run is to stop and leaves its
	// machines (GivenUp).
	ProviderChanged struct{ To, Why string }
	// Warned: the provider says that a machine will go, or (Rebalance) that the risk has grown.
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

// What a fleet does.
type (
	// Launch buys machines; answered by Launched or LaunchFailed.
	Launch struct{ Request provisioner.Request }
	// Terminate ends machines; answered by an InstanceEnded each.
	Terminate struct {
		IDs []provisioner.InstanceID
		Why string
	}
)

func (Launch) Action()    {}
func (Terminate) Action() {}
