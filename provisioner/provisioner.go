// Package provisioner is the contract of a cloud: launch, terminate, list, be told. Adapters over the
// real SDKs live below it (provisioner/ec2). It buys what it is told to buy and never decides.
package provisioner

import (
	"context"
	"errors"
	"time"

	"github.com/tierml/tierml/market"
)

// InstanceID is the provider's name of a machine, "i-0abc...".
type InstanceID string

// Cloud is one provider, seen through one cluster's tag: it lists and notifies only machines that
// carry it. provisionertest is its exam.
type Cloud interface {
	// Launch buys machines. The same Request.Token always yields the same machines, however often it is
	// sent. It returns those that it got, which may be fewer than asked for, with a nil error if there is
	// at least one. Errors: ErrNoCapacity, ErrPriceTooLow, ErrLimit, ErrThrottled, ErrInvalid.
	Launch(ctx context.Context, r Request) ([]Instance, error)
	// Terminate ends machines; ending one that has ended already is not an error.
	Terminate(ctx context.Context, ids ...InstanceID) error
	// List gives every machine of the cluster that runs or ended recently, sorted by id.
	List(ctx context.Context) ([]Instance, error)
	// Notify calls f for each change that the provider tells of (warned, ended) until ctx is done. A
	// notice may come more than once; f is never called concurrently.
	Notify(ctx context.Context, f func(Notice)) error
	// Traits says what the provider can do.
	Traits() Traits
}

// Request asks for Count machines of one pool.
type Request struct {
	Token    string // idempotency: written down before the launch is tried
	Pool     market.Pool
	Bid      market.USD // highest price per hour; 0 = the on-demand price
	Count    int
	UserData string            // handed to the machine's first process
	Tags     map[string]string // beside the cluster's own
}

// State of a machine.
type State string

const (
	Pending    State = "pending"
	Running    State = "running"
	Stopping   State = "stopping" // being taken down
	Terminated State = "terminated"
)

// Instance is a machine as the provider sees it. Times are the provider's own (market time), whole
// seconds: bills are made from them.
type Instance struct {
	ID       InstanceID
	Pool     market.Pool
	Bid      market.USD
	Token    string
	State    State
	Launched time.Time
	Ended    time.Time // zero until terminated
	EndedBy  market.EndedBy
	Reason   string // the provider's words
	Tags     map[string]string
}

// NoticeKind says what a notice is about.
type NoticeKind string

const (
	// Rebalance: the provider sees a raised risk; no deadline.
	Rebalance NoticeKind = "rebalance"
	// Eviction: the machine will be taken back at Deadline.
	Eviction NoticeKind = "eviction"
	// Ended: the machine is gone.
	Ended NoticeKind = "ended"
)

// Notice is something that the provider tells about a machine.
type Notice struct {
	Kind     NoticeKind
	ID       InstanceID
	Deadline time.Time // market time; Eviction only
	Instance Instance  // Ended only
}

// Traits is what differs between providers, as data.
type Traits struct {
	Provider     string
	MaxBid       bool          // a highest price can be set
	NoticeLength time.Duration // usual warning before an eviction, wall-clock; 0 = none
	MaxLaunch    int           // most machines in one Launch
	MaxLifetime  time.Duration // machines end by themselves after this; 0 = never
}

// Errors that callers tell apart; adapters wrap the provider's own around them.
var (
	ErrNoCapacity  = errors.New("no capacity")
	ErrPriceTooLow = errors.New("bid is below the spot price")
	ErrLimit       = errors.New("account limit reached")
	ErrThrottled   = errors.New("request rate limit reached")
	ErrNotFound    = errors.New("not found")
	ErrInvalid     = errors.New("invalid request")
)
