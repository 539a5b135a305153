package runner_test

import (
	"context"
	"time"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// puppet is a machine whose agent obeys at once and does nothing.
type puppet struct {
	incarnation ps.Incarnation
	generation  ps.Generation
	version     uint64
}

// nodes simulates the machines' agents for one controller.
type nodes struct {
	*life
	reports chan told
}

type told struct {
	id ps.ServerID
	r  tiers.Report
}

func (n *nodes) Send(id ps.ServerID, c tiers.Command) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.puppets[id]
	if p == nil || n.ctx.Err() != nil {
		return nil
	}
	answer := tiers.Answer{ID: c.ID}
	switch do := c.Do.(type) {
	case tiers.Stop:
		return nil
	case tiers.Welcome:
		p.incarnation, p.generation = do.Incarnation, do.Generation
	case tiers.SetRoute:
		p.generation, p.version = do.Generation, do.Route.Version
	case tiers.Recover:
		p.generation, p.version = do.Generation, do.Route.Version
	case tiers.TakeStock:
		answer.Result = tiers.Stock{Generation: p.generation, Version: p.version}
	case tiers.FenceGeneration:
		answer.Result = tiers.Holdings{}
	}
	go func() {
		select {
		case n.reports <- told{id, answer}:
		case <-n.ctx.Done():
		}
	}()
	return nil
}

// Receive makes every machine of the cloud call, once for each controller.
func (n *nodes) Receive(ctx context.Context, f func(ps.ServerID, tiers.Report, error)) error {
	called := map[ps.ServerID]bool{}
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-n.reports:
			f(r.id, r.r, nil)
		case <-look.C:
			machines, err := n.observer.List(ctx)
			if err != nil {
				continue
			}
			for _, m := range machines {
				id := ps.ServerID(m.ID)
				if m.State != provisioner.Pending && m.State != provisioner.Running {
					continue
				}
				n.mu.Lock()
				if n.puppets[id] == nil {
					n.puppets[id] = &puppet{}
				}
				p := *n.puppets[id]
				n.mu.Unlock()
				if !called[id] {
					called[id] = true
					f(id, tiers.Hello{Instance: id, Address: "nowhere:1", Incarnation: p.incarnation, Generation: p.generation}, nil)
				} else {
					f(id, tiers.Heartbeat{}, nil)
				}
			}
		}
	}
}
