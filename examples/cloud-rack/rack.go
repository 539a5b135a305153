// Package rack is the smallest cloud: a rack of our own machines, so many of one type, that costs nothing and is switched on
// and off. It shows all that a provider has to do, in one folder; docs/extend.md walks through it. rack.go is the cloud, whose real
// machines two functions would switch; provider.go is the rest: here each machine is a process of this host.
package rack

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Rack is so many machines. It may be used by several goroutines.
type Rack struct {
	// On and Off switch a slot; nil = nothing is switched. On gets the machine's name and the user data of the launch.
	On  func(slot int, id provisioner.InstanceID, userData string) error
	Off func(slot int) error
	// Now is the time; market and wall-clock time are the same here.
	Now func() time.Time

	mu       sync.Mutex
	slots    []bool // in use
	machines []*machine
	requests map[string]provisioner.Request // by cluster and token
	changed  chan struct{}                  // closed and replaced at every change
}

type machine struct {
	provisioner.Instance
	cluster string
	slot    int
}

// New makes a rack of so many machines.
func New(machines int) *Rack {
	return &Rack{Now: time.Now, slots: make([]bool, machines), requests: map[string]provisioner.Request{}, changed: make(chan struct{})}
}

// Cluster is the rack as one cluster sees it: it lists its own machines only.
func (r *Rack) Cluster(name string) provisioner.Cloud { return cluster{Rack: r, name: name} }

type cluster struct {
	provisioner.Basic // a rack has nothing of what is optional
	*Rack
	name string
}

// Traits says what this provider can do: it has no prices to bid on, and never warns.
func (cluster) Traits() provisioner.Traits { return provisioner.Traits{Provider: "rack"} }

// Launch switches machines on. The token makes it idempotent: the same request gives the same machines, whatever has become
// of them, and another request with a used token is refused. A controller that crashed may ask again.
func (c cluster) Launch(ctx context.Context, q provisioner.Request) ([]provisioner.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := q.Validate(c.Traits()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.name + " " + q.Token
	if before, used := c.requests[key]; used {
		if !reflect.DeepEqual(before, q) {
			return nil, fmt.Errorf("launching: %w: the token %q has been used for another request", provisioner.ErrInvalid, q.Token)
		}
		return c.list(func(m *machine) bool { return m.Token == q.Token }), nil
	}
	var made []*machine
	for slot, taken := range c.slots {
		if taken || len(made) == q.Count {
			continue
		}
		id := provisioner.InstanceID(fmt.Sprintf("rack-%04d-%d", len(c.machines)+len(made), slot))
		if c.On != nil {
			if err := c.On(slot, id, q.UserData); err != nil {
				continue // a broken machine is one that cannot be had
			}
		}
		c.slots[slot] = true
		made = append(made, &machine{cluster: c.name, slot: slot, Instance: provisioner.Instance{
			ID: id, Pool: q.Pool, Bid: q.Bid, Token: q.Token,
			State: provisioner.Running, Launched: c.Now().UTC().Truncate(time.Second), Tags: q.Tags,
		}})
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("launching: %w: all %d machines of the rack are in use", provisioner.ErrNoCapacity, len(c.slots))
	}
	c.requests[key] = q
	c.machines = append(c.machines, made...)
	c.wake()
	return c.list(func(m *machine) bool { return m.Token == q.Token }), nil
}

// Terminate switches machines off. An ended or unknown machine is no error: the caller may be repeating a request.
func (c cluster) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		for _, id := range ids {
			if m.ID != id || m.cluster != c.name || m.State == provisioner.Terminated {
				continue
			}
			if c.Off != nil {
				if err := c.Off(m.slot); err != nil {
					return fmt.Errorf("switching %s off: %w: %w", id, provisioner.ErrTemporary, err)
				}
			}
			c.slots[m.slot] = false
			m.State, m.Ended, m.EndedBy, m.Reason = provisioner.Terminated, c.Now().UTC().Truncate(time.Second), market.ByUser, "switched off"
		}
	}
	c.wake()
	return nil
}

// List returns every machine of the cluster, also those that have ended.
func (c cluster) List(ctx context.Context) ([]provisioner.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list(func(*machine) bool { return true }), nil
}

// Notify reports machines that have ended, each once, until ctx is done.
func (c cluster) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	told := map[provisioner.InstanceID]bool{}
	for {
		c.mu.Lock()
		ended, changed := c.list(func(m *machine) bool { return m.State == provisioner.Terminated && !told[m.ID] }), c.changed
		c.mu.Unlock()
		for _, i := range ended {
			if ctx.Err() != nil {
				return nil
			}
			told[i.ID] = true
			f(provisioner.Notice{Kind: provisioner.Ended, ID: i.ID, Instance: i})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// list returns copies of the cluster's machines that pass, sorted as the contract wants them; the lock is held.
func (c cluster) list(pass func(*machine) bool) (list []provisioner.Instance) {
	for _, m := range c.machines {
		if m.cluster == c.name && pass(m) {
			list = append(list, m.Instance)
		}
	}
	provisioner.SortInstances(list)
	return list
}

// wake notifies the watchers; the lock is held.
func (r *Rack) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}
