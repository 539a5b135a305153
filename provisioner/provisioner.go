// Package provisioner is the contract of a cloud: launch, terminate, list, notify. It buys what is requested and does not know why: what to
// buy, where and at what bid is decided by bidding, and what to do about a notice by elasticity.
//
// Adapters over the providers' SDKs are in the providers' folders (providers/ec2/api); provisionertest is the exam that every cloud must
// pass: the contract as a test.
package provisioner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// InstanceID is the provider's name of a machine, "i-0123456789abcdef0".
type InstanceID string

// Cloud is one provider in one region, seen through one cluster's tag: it lists and notifies only machines that carry it. All methods may
// be called concurrently. They end early, with ctx's error, when ctx is done; what a Launch or Terminate that ended like this has done can
// only be found out by calling again.
type Cloud interface {
	// Launch buys machines. Sending a Request again with the same Token yields the same machines, whatever their state, and buys no more;
	// sending another Request with a used Token is ErrInvalid. It returns the machines that it got, sorted by id, possibly fewer than
	// requested; there is at least one if the error is nil. After ErrTemporary, ErrThrottled, an unknown error or ctx's error there may be
	// machines nevertheless: send the Request again, or find them by Token in List. Other errors: ErrNoCapacity, ErrPriceTooLow, ErrLimit,
	// ErrInvalid, ErrNotFound (for example of an image), ErrDenied.
	Launch(ctx context.Context, r Request) ([]Instance, error)
	// Terminate ends machines. It requests the end and does not wait for it. Ending a machine that has already ended, or that is unknown,
	// is not an error.
	Terminate(ctx context.Context, ids ...InstanceID) error
	// List returns every machine of the cluster that runs or ended recently, sorted by id. It includes every machine that Launch returned,
	// even if parts of the provider do not know it yet.
	List(ctx context.Context) ([]Instance, error)
	// Notify calls f for each change that the provider reports (warned, ended), starting with those in force, until ctx is done: then it
	// returns nil. Temporary failures do not end it. A notice may come more than once; f is never called concurrently by one Notify, nor
	// after it has returned.
	Notify(ctx context.Context, f func(Notice)) error
	// Traits says what the provider can do.
	Traits() Traits
	Optional
}

// Optional contains what only some providers can do, according to Traits. It is part of every Cloud, so that a Cloud that wraps and embeds
// another one can do all that the inner one can. Embed Basic in a Cloud that can do none of it.
type Optional interface {
	// Choose is Launch for a Request with Or, and returns, in addition to the machines or the error, which pools refused, as far as the
	// provider says so. Only if Traits.Chooses.
	Choose(ctx context.Context, r Request) ([]Instance, []Refusal, error)
	// Renew extends the leases of machines. Their controller renews them as long as it runs; anyone who finds a machine past its lease may
	// end it. Machines that have ended, or are unknown, are not an error. If Traits.Leases is false it does nothing.
	Renew(ctx context.Context, generation string, until time.Time, ids ...InstanceID) error
	// Holdings returns the machines of the cluster that cost money, with the facts in their tags. Only if Traits.Leases.
	Holdings(ctx context.Context) ([]Holding, error)
	// Recall adds a machine that an earlier process bought and recorded, for providers that forget machines that have ended.
	Recall(i Instance)
	// Preempt makes the provider take machines back as it normally would, with a notice first: for drills. Only if Traits.Preempts.
	Preempt(ctx context.Context, ids ...InstanceID) error
	// RemoveLeftovers deletes what launches have left behind other than machines. No launch may be in progress.
	RemoveLeftovers(ctx context.Context) error
}

// Basic is embedded by a Cloud that lacks all optional parts of the contract.
type Basic struct{}

// Choose refuses: Traits.Chooses is false.
func (Basic) Choose(context.Context, Request) ([]Instance, []Refusal, error) {
	return nil, nil, fmt.Errorf("%w: this provider does not choose among pools", ErrInvalid)
}

// Renew does nothing: machines have no leases.
func (Basic) Renew(context.Context, string, time.Time, ...InstanceID) error { return nil }

// Holdings is empty: machines have no tags.
func (Basic) Holdings(context.Context) ([]Holding, error) { return nil, nil }

// Recall does nothing: the provider remembers.
func (Basic) Recall(Instance) {}

// Preempt refuses: Traits.Preempts is false.
func (Basic) Preempt(context.Context, ...InstanceID) error {
	return fmt.Errorf("%w: this provider takes no machine back on demand", ErrInvalid)
}

// RemoveLeftovers does nothing: launches leave only machines.
func (Basic) RemoveLeftovers(context.Context) error { return nil }

// Request requests Count machines of one pool. Providers compare a repeated Request with the first one, so everything in it must follow
// from what was recorded with the Token: another process may have to repeat it.
type Request struct {
	Token    string // for idempotency: recorded before the launch is tried
	Pool     market.Pool
	Bid      market.USD // spot only: highest price per hour; 0 = the on-demand price
	Count    int
	UserData string            // passed to the machine's first process
	Tags     map[string]string // in addition to the cluster's own
	// Or are pools whose machines serve as well, on the same terms of sale: the provider takes machines from all, judging by price
	// and expected lifetime. Only if Traits.Chooses.
	Or []Choice

	Intended   time.Time // when it was decided, as recorded; zero = it is not recorded
	Generation string    // the controller of the run that decided it; empty = unknown
	Expires    time.Time // the lease's end, unless it is renewed; zero = unknown
}

// Choice is a pool that a provider may choose, and the highest price per hour there, like Bid of a Request.
type Choice struct {
	Pool market.Pool
	Bid  market.USD
}

// State of a machine.
type State string

const (
	// Pending machines are being created.
	Pending State = "pending"
	// Running machines can be used.
	Running State = "running"
	// Stopping machines are being shut down.
	Stopping State = "stopping"
	// Terminated machines are gone.
	Terminated State = "terminated"
)

// Instance is a machine as the provider sees it. Times are the provider's own (market time), in whole seconds: bills are computed from
// them.
type Instance struct {
	ID       InstanceID
	Pool     market.Pool
	Bid      market.USD // as in the Request
	Token    string     // of the Request that created it
	State    State
	Launched time.Time
	Ended    time.Time      // zero until terminated; never before Launched
	EndedBy  market.EndedBy // market.Running until terminated
	Reason   string         // in the provider's words
	Presumed bool           // nobody saw its end: it is billed until then, but its processes may still be running
	Tags     map[string]string
	Cost     *market.USD // in total, if Traits.Bills and it is final
}

// NoticeKind is the subject of a notice.
type NoticeKind string

const (
	// Rebalance: the provider reports a raised risk; no deadline.
	Rebalance NoticeKind = "rebalance"
	// Eviction: the machine will be reclaimed at Deadline.
	Eviction NoticeKind = "eviction"
	// Ended: the machine is gone.
	Ended NoticeKind = "ended"
)

// Notice is a provider's report about a machine.
type Notice struct {
	Kind     NoticeKind
	ID       InstanceID
	Deadline time.Time // market time; Eviction only
	Instance Instance  // Ended only
}

// Traits are the differences between providers, as data.
type Traits struct {
	Provider     string        // as in market.Pool
	MaxBid       bool          // a maximum price can be set
	NoticeLength time.Duration // usual warning before an eviction, wall-clock; 0 = none
	MaxLaunch    int           // maximum number of machines in one Launch; 0 = no limit
	MaxUserData  int           // bytes; 0 = no limit
	Chooses      bool          // accepts a Request's Or
	Leases       bool          // machines carry the time until which they are wanted
	Preempts     bool          // takes machines back on demand, with a notice first
	Leftovers    bool          // every launch leaves something other than machines: see RemoveLeftovers
	Bills        bool          // reports what each machine has cost, instead of a rule book
	MaxLifetime  time.Duration // machines end by themselves after this time; 0 = never
}

// SortInstances sorts machines as Launch and List return them.
func SortInstances(instances []Instance) {
	slices.SortFunc(instances, func(a, b Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
}
