package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Machines is a provider without an API of its own: two functions start and end its machines, and Machines keeps the state that the
// contract requires. So a repeated request gives the same machines, ended machines stay listed, and each end is reported once.
//
// Functions are called one at a time, and may not call Change or the Cloud's methods. Set everything before Cluster.
type Machines struct {
	Traits provisioner.Traits
	// Now is the market time.
	Now func() time.Time
	// Start starts machines, and returns the ids of those that it could start. Its error counts only if it started none.
	Start func(provisioner.Request) ([]provisioner.InstanceID, error)
	// End ends a machine.
	End func(provisioner.InstanceID) error

	mu       sync.Mutex
	all      []*kept                        // sorted by id
	requests map[string]provisioner.Request // by cluster and token
	changed  chan struct{}                  // closed and replaced at every change
}

type kept struct {
	Shown
	cluster string
}

// Cluster returns the view of one cluster, which sees only its own machines.
func (m *Machines) Cluster(name string) provisioner.Cloud { return &cluster{Machines: m, name: name} }

// Change calls f exclusively, for changes to machines that nobody requested, and has all changes reported. See Live and Over.
func (m *Machines) Change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	if m.changed != nil {
		close(m.changed)
	}
	m.changed = make(chan struct{})
}

// Live returns the machines that have not ended, for functions that Change calls. A Deadline warns one of its eviction.
func (m *Machines) Live() (live []*Shown) {
	for _, one := range m.all {
		if one.State != provisioner.Terminated {
			live = append(live, &one.Shown)
		}
	}
	return live
}

// Over records the end of a live machine, for functions that Change calls.
func (*Machines) Over(one *Shown, at time.Time, by market.EndedBy, reason string) {
	one.State, one.Ended, one.EndedBy, one.Reason = provisioner.Terminated, at.UTC().Truncate(time.Second), by, reason
}

type cluster struct {
	provisioner.Basic
	*Machines
	name string
}

func (c *cluster) Traits() provisioner.Traits { return c.Machines.Traits }

func (c *cluster) Launch(ctx context.Context, r provisioner.Request) (got []provisioner.Instance, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.Validate(c.Traits()); err != nil {
		return nil, err
	}
	c.Change(func() {
		if err = c.launch(r); err == nil {
			got = instances(c.shown(func(one *kept) bool { return one.Token == r.Token }))
		}
	})
	return got, err
}

func (c *cluster) launch(r provisioner.Request) error {
	key := c.name + " " + r.Token
	if before, used := c.requests[key]; used {
		if !reflect.DeepEqual(before, r) {
			return fmt.Errorf("launching: %w: the token %q has been used for another request", provisioner.ErrInvalid, r.Token)
		}
		return nil
	}
	ids, err := c.Start(r)
	if len(ids) == 0 {
		return fmt.Errorf("launching: %w", err)
	}
	if c.requests == nil {
		c.requests = map[string]provisioner.Request{}
	}
	r.Tags = maps.Clone(r.Tags)
	c.requests[key] = r
	for _, id := range ids {
		c.all = append(c.all, &kept{cluster: c.name, Shown: Shown{Instance: provisioner.Instance{ID: id, Pool: r.Pool, Bid: r.Bid, Token: r.Token,
			State: provisioner.Running, Launched: c.Now().UTC().Truncate(time.Second), Tags: r.Tags}}})
	}
	slices.SortFunc(c.all, func(a, b *kept) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

func (c *cluster) Terminate(ctx context.Context, ids ...provisioner.InstanceID) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Change(func() {
		for _, one := range c.all {
			if one.cluster != c.name || one.State == provisioner.Terminated || !slices.Contains(ids, one.ID) {
				continue
			}
			if failed := c.End(one.ID); failed != nil {
				err = errors.Join(err, fmt.Errorf("ending %s: %w: %w", one.ID, provisioner.ErrTemporary, failed))
				continue
			}
			c.Over(&one.Shown, c.Now(), market.ByUser, "terminated")
		}
	})
	return err
}

func (c *cluster) List(ctx context.Context) ([]provisioner.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return instances(c.shown(func(*kept) bool { return true })), nil
}

func (c *cluster) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	told := map[notice]bool{}
	for ctx.Err() == nil {
		c.mu.Lock()
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		all, changed := c.shown(func(*kept) bool { return true }), c.changed
		c.mu.Unlock()
		told = deliver(all, told, f)
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return nil
}

// shown returns copies of the cluster's machines that pass, sorted by id; the lock is held.
func (c *cluster) shown(pass func(*kept) bool) (all []Shown) {
	for _, one := range c.all {
		if one.cluster == c.name && pass(one) {
			shown := one.Shown
			shown.Tags = maps.Clone(one.Tags)
			all = append(all, shown)
		}
	}
	return all
}

func instances(shown []Shown) []provisioner.Instance {
	all := make([]provisioner.Instance, len(shown))
	for i, s := range shown {
		all[i] = s.Instance
	}
	return all
}
