package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// batch is the request to one server in one round.
type batch struct {
	to         server
	partitions []ps.Partition
	changed    chan struct{} // view.changed
}

// round groups partitions by server and lets do query all servers at the same time. Partitions is reordered by server. The outcome is the
// worst of the servers', where an error ends the operation.
func (c *Client) round(
	v view, partitions []ps.Partition, prepare func(), do func(b batch) (outcome, error),
) (outcome, error) {
	slices.SortFunc(partitions, func(a, b ps.Partition) int {
		x, y := v.owners[a], v.owners[b]
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.address, y.address), cmp.Compare(a, b))
	})
	prepare()
	if n := len(partitions); n > 0 && v.owners[partitions[0]] == v.owners[partitions[n-1]] { // the usual case of one server
		return do(batch{to: v.owners[partitions[0]], partitions: partitions, changed: v.changed})
	}
	return c.askAll(v, partitions, do)
}

// askAll asks several servers at the same time.
func (c *Client) askAll(v view, partitions []ps.Partition, do func(b batch) (outcome, error)) (outcome, error) {
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		worst  outcome
		failed error
	)
	ask := func(b batch) {
		o, err := do(b)
		mu.Lock()
		defer mu.Unlock()
		worst = max(worst, o)
		if failed == nil {
			failed = err
		}
	}
	for len(partitions) > 0 {
		to := v.owners[partitions[0]]
		n := 1
		for n < len(partitions) && v.owners[partitions[n]] == to {
			n++
		}
		b := batch{to: to, partitions: partitions[:n:n], changed: v.changed}
		partitions = partitions[n:]
		if len(partitions) == 0 { // the last one needs no goroutine
			ask(b)
		} else {
			asking.Go(func() {
				defer c.cfg.Panicked.Report()
				ask(b)
			})
		}
	}
	asking.Wait()
	return worst, failed
}

// failure returns what a call's error means for the round.
func (c *Client) failure(ctx context.Context, to server, err error) (outcome, error) {
	switch {
	case ctx.Err() != nil:
		return setback, ctx.Err()
	case fatal(err):
		return setback, fmt.Errorf("server %s: %w", to.id, err)
	}
	c.log.Debug("a request will be sent again", "server", to.id, "address", to.address, "error", err)
	return setback, nil
}

// settle processes an answer's partitions, which must be those of the batch in its order. It calls done for the successful ones, with the
// code, and records where others have moved.
func (c *Client) settle(b batch, statuses []wire.PartitionStatus, done func(p ps.Partition, code wire.Code)) (outcome, error) {
	if len(statuses) != len(b.partitions) {
		return setback, fmt.Errorf("server %s answered for %d partitions, not %d", b.to.id, len(statuses), len(b.partitions))
	}
	worst := progress
	for i, status := range statuses {
		if status.Partition != b.partitions[i] {
			return setback, fmt.Errorf("server %s answered for partition %d, not %d", b.to.id, status.Partition, b.partitions[i])
		}
		switch status.Code {
		case wire.OK, wire.Committed, wire.NotStaged:
			done(status.Partition, status.Code)
		case wire.Moved:
			c.learn(status.Partition, b, server{id: status.To, address: status.Address})
			worst = max(worst, followed)
		case wire.Retry:
			worst = setback
		default:
			return setback, fmt.Errorf("server %s, partition %d: %w", b.to.id, status.Partition, status.Code.Err())
		}
	}
	return worst, nil
}

// unexpected is an answer of the wrong type.
func unexpected(to server, m wire.Message) error {
	wire.Release(m)
	return errors.Join(wire.ErrInternal, fmt.Errorf("server %s answered with type %d", to.id, m.Type()))
}
