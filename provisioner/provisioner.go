// Package provisioner is the contract of a cloud: launch, terminate, list, notify. It buys what is requested and knows
// nothing about why: what to buy, where and at what bid is bidding's business, and what to do about a notice is elasticity's.
//
// Adapters over the providers' SDKs are in the providers' folders (providers/ec2/api); provisionertest is the exam that every
// cloud must pass: the contract as a test.
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

// Cloud is one provider in one region, seen through one cluster's tag: it lists and notifies only machines
// that carry it. All methods may be called concurrently. They end early, with an error that is ctx's, when
// ctx is done; what a Launch or Terminate that ended so has done is only known by asking again.
type Cloud interface {
	// Launch buys machines. Sending a Request again with the same Token yields the same machines, whatever
	// their state, and buys no more; sending another Request with a used Token is ErrInvalid. It returns
	// those that it got, sorted by id, which may be fewer than requested; there is at least one when the
	// error is nil. After ErrTemporary, ErrThrottled, an unknown error or ctx's there may be machines all the
	// same: send the Request again, or find them by Token in List. Other errors: ErrNoCapacity,
	// ErrPriceTooLow, ErrLimit, ErrInvalid, ErrNotFound (an image, say), ErrDenied.
	Launch(ctx context.Context, r Request) ([]Instance, error)
	// Terminate ends machines. It asks for the end and does not wait for it. Ending a machine that has ended
	// already, or that is unknown, is not an error.
	Terminate(ctx context.Context, ids ...InstanceID) error
	// List returns every machine of the cluster that runs or ended recently, sorted by id. A machine that
	// Launch returned is in it, even if the provider takes a while to know of its own machines everywhere.
	List(ctx context.Context) ([]Instance, error)
	// Notify calls f for each change that the provider reports (warned, ended), beginning with those in
	// force, until ctx is done: then it returns nil. Failures that pass do not end it. A notice may come
	// more than once; f is never called concurrently by one Notify, nor after it has returned.
	Notify(ctx context.Context, f func(Notice)) error
	// Traits says what the provider can do.
	Traits() Traits
	Optional
}

// Optional is what only some providers can do, as Traits say. It is part of every Cloud, so that a Cloud around another, which
// embeds it, does all that the inner one does. Basic is for a Cloud that does none of it.
type Optional interface {
	// Choose is Launch of a Request with Or, and returns, besides the machines or the error, which pools refused; as far as
	// the provider says so. Only where Traits.Chooses.
	Choose(ctx context.Context, r Request) ([]Instance, []Refusal, error)
	// Renew extends the leases of machines. Their controller renews them as long as it runs; any finder of a machine past its
	// lease may end it. Machines that have ended, or are unknown, are not an error. Where Traits.Leases is false it does
	// nothing.
	Renew(ctx context.Context, generation string, until time.Time, ids ...InstanceID) error
	// Holdings returns the machines of the cluster that cost money, with what their tags say. Only where Traits.Leases.
	Holdings(ctx context.Context) ([]Holding, error)
	// Recall adds a machine that an earlier process bought and wrote down, for providers that forget those that have
	// ended.
	Recall(i Instance)
	// Preempt has the provider take machines back as it does by itself, notice first: for drills. Only where Traits.Preempts.
	Preempt(ctx context.Context, ids ...InstanceID) error
	// RemoveLeftovers deletes what launches have left that is no machine. None may be under way.
	RemoveLeftovers(ctx context.Context) error
}

// Basic is embedded by a Cloud that has none of the optional parts of the contract.
type Basic struct{}

// Choose refuses: Traits.Chooses is false.
func (Basic) Choose(context.Context, Request) ([]Instance, []Refusal, error) {
	return nil, nil, fmt.Errorf("%w: this provider does not choose among pools", ErrInvalid)
}

// Renew does nothing: machines have no leases.
func (Basic) Renew(context.Context, string, time.Time, ...InstanceID) error { return nil }

// Holdings is empty: nothing is written on machines.
func (Basic) Holdings(context.Context) ([]Holding, error) { return nil, nil }

// Recall does nothing: the provider remembers.
func (Basic) Recall(Instance) {}

// Preempt refuses: Traits.Preempts is false.
func (Basic) Preempt(context.Context, ...InstanceID) error {
	return fmt.Errorf("%w: this provider takes no machine back on demand", ErrInvalid)
}

// RemoveLeftovers does nothing: launches leave machines only.
func (Basic) RemoveLeftovers(context.Context) error { return nil }

// Request asks for Count machines of one pool. Providers compare a Request that comes again with the one before, so that
// everything in it must follow from what was written down with the Token: another process may have to send it again.
type Request struct {
	Token    string // idempotency: written down before the launch is tried
	Pool     market.Pool
	Bid      market.USD // spot only: highest price per hour; 0 = the on-demand price
	Count    int
	UserData string            // handed to the machine's first process
	Tags     map[string]string // besides the cluster's own
	// Or are pools whose machines serve as well, on the same terms of sale: the provider takes from all, as it thinks
	// that they will last and be cheap. Only where Traits.Chooses.
	Or []Choice

	Intended   time.Time // when it was decided, as it is written down; zero = it is not written down
	Generation string    // the controller of the run that decided it; empty = unknown
	Expires    time.Time // the lease's end, unless it is renewed; zero = unknown
}

// Choice is a pool that a provider may choose, and the highest price per hour there, as Bid of a Request.
type Choice struct {
	Pool market.Pool
	Bid  market.USD
}

// State of a machine.
type State string

const (
	// Pending machines are being made.
	Pending State = "pending"
	// Running machines can be used.
	Running State = "running"
	// Stopping machines are being taken down.
	Stopping State = "stopping"
	// Terminated machines are gone.
	Terminated State = "terminated"
)

// Instance is a machine as the provider sees it. Times are the provider's own (market time), whole
// seconds: bills are made from them.
type Instance struct {
	ID       InstanceID
	Pool     market.Pool
	Bid      market.USD // as in the Request
	Token    string     // of the Request that made it
	State    State
	Launched time.Time
	Ended    time.Time      // zero until terminated; never before Launched
	EndedBy  market.EndedBy // market.Running until terminated
	Reason   string         // the provider's words
	Presumed bool           // nobody saw its end: what is billed ends then, but its processes may run on
	Tags     map[string]string
	Cost     *market.USD // in all, where Traits.Bills and nothing changes it any more
}

// NoticeKind says what a notice is about.
type NoticeKind string

const (
	// Rebalance: the provider reports a raised risk; no deadline.
	Rebalance NoticeKind = "rebalance"
	// Eviction: the machine will be taken back at Deadline.
	Eviction NoticeKind = "eviction"
	// Ended: the machine is gone.
	Ended NoticeKind = "ended"
)

// Notice is what the provider reports of a machine.
type Notice struct {
	Kind     NoticeKind
	ID       InstanceID
	Deadline time.Time // market time; Eviction only
	Instance Instance  // Ended only
}

// Traits is what differs between providers, as data.
type Traits struct {
	Provider     string        // as in market.Pool
	MaxBid       bool          // a highest price can be set
	NoticeLength time.Duration // usual warning before an eviction, wall-clock; 0 = none
	MaxLaunch    int           // most machines in one Launch; 0 = no limit
	MaxUserData  int           // bytes; 0 = no limit
	Chooses      bool          // takes a Request's Or
	Leases       bool          // machines carry until when they are wanted
	Preempts     bool          // takes machines back on demand, notice first
	Leftovers    bool          // every launch leaves what is no machine: see RemoveLeftovers
	Bills        bool          // says what each machine has cost: no rule book does
	MaxLifetime  time.Duration // machines end by themselves after this; 0 = never
}

// SortInstances puts machines in the order in which Launch and List give them.
func SortInstances(instances []Instance) {
	slices.SortFunc(instances, func(a, b Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
}
