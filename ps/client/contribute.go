package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// standing is how far a contribution has come in one partition.
type standing uint8

const (
	unknown standing = iota // not there, for all that is known
	staged
	committed
)

// contribution is one on its way.
type contribution struct {
	client     *Client
	generation ps.Generation
	stage      wire.Stage     // but for Partitions
	sums       []ps.Sums      // Index: Partition
	standing   []standing     // Index: Partition
	partitions []ps.Partition // scratch: those of a round
	owners     []server       // scratch
}

// Contribute makes the updates of a set of splits for one clock count, all of them or none: every partition
// holds its part, unseen, before the first one is told that it counts. Every partition of the schema takes
// part, with rows or without, since each counts the splits that have finished a clock.
//
// It returns when all have committed. It may be called again with the same arguments after an error: a
// sequence number counts once. Sums must not be changed while it runs.
func (c *Client) Contribute(
	ctx context.Context, generation ps.Generation, incarnation ps.Incarnation, sequence uint64, clock ps.Clock,
	splits []ps.Split, sums []PartitionSums,
) error {
	k := c.contributions.Get().(*contribution)
	k.begin(c, generation)
	k.stage.Incarnation, k.stage.Sequence, k.stage.Clock = incarnation, sequence, clock
	k.stage.Splits = append(k.stage.Splits[:0], splits...)
	slices.Sort(k.stage.Splits) // the protocol's order
	err := k.check(sums)
	if err == nil {
		err = k.run(ctx)
	}
	clear(k.sums)
	c.contributions.Put(k)
	if err != nil {
		return fmt.Errorf("contribute to clock %d: %w", clock, err)
	}
	return nil
}

// begin makes it a new one.
func (k *contribution) begin(c *Client, generation ps.Generation) {
	n := c.schema.Partitions
	k.client, k.generation = c, generation
	k.sums, k.standing = slices.Grow(k.sums[:0], n)[:n], slices.Grow(k.standing[:0], n)[:n]
	clear(k.standing)
}

// check refuses what no server would take, and sorts the sums by partition.
func (k *contribution) check(sums []PartitionSums) error {
	if len(k.stage.Splits) == 0 {
		return fmt.Errorf("%w: no split", ps.ErrInvalid)
	}
	for i := range sums {
		p := sums[i].Partition
		if int(p) >= len(k.sums) || len(k.sums[p].Keys) > 0 {
			return fmt.Errorf("%w: partition %d twice, or of %d", ps.ErrInvalid, p, len(k.sums))
		}
		if err := sums[i].Sums.Check(&k.client.schema, p); err != nil {
			return err
		}
		k.sums[p] = sums[i].Sums
	}
	return nil
}

// run stages wherever it is not staged yet, and commits once it is staged everywhere. An owner may be
// replaced between the two: the new one is given the contribution again, even if others have committed it.
func (k *contribution) run(ctx context.Context) error {
	var pace attempts
	for {
		do := k.stageBatch
		if !k.list(unknown) {
			if !k.list(staged) {
				return nil
			}
			do = k.commitBatch
		}
		v, err := k.client.look(ctx, k.generation, k.owners)
		if err != nil {
			return err
		}
		k.owners = v.owners
		outcome, err := k.client.round(v, k.partitions, func() {}, func(b batch) (outcome, error) { return do(ctx, b) })
		if err != nil {
			return err
		}
		pace.next(ctx, v, outcome)
	}
}

// list makes partitions those with a standing, and reports whether there are any.
func (k *contribution) list(want standing) bool {
	k.partitions = k.partitions[:0]
	for p, standing := range k.standing {
		if standing == want {
			k.partitions = append(k.partitions, ps.Partition(p))
		}
	}
	return len(k.partitions) > 0
}

func (k *contribution) stageBatch(ctx context.Context, b batch) (outcome, error) {
	request := &wire.Contribute{Stage: k.stage}
	request.Partitions = make([]wire.PartitionSums, len(b.partitions))
	for i, p := range b.partitions {
		request.Partitions[i] = wire.PartitionSums{Partition: p, Sums: k.sums[p]}
	}
	if len(b.partitions) == len(k.sums) { // this server has all: it can commit at once
		return k.ask(ctx, b, request, staged)
	}
	return k.ask(ctx, b, &request.Stage, staged)
}

func (k *contribution) commitBatch(ctx context.Context, b batch) (outcome, error) {
	request := &wire.Commit{Incarnation: k.stage.Incarnation, Sequence: k.stage.Sequence, Partitions: b.partitions}
	return k.ask(ctx, b, request, committed)
}

// ask sends a request; partitions where it went well get a standing.
func (k *contribution) ask(ctx context.Context, b batch, request wire.Message, then standing) (outcome, error) {
	c := k.client
	answer, err := c.call(ctx, k.generation, b.to, b.partitions, request)
	if err != nil {
		return c.failure(ctx, b.to, err)
	}
	ack, ok := answer.(*wire.Ack)
	if !ok {
		return setback, unexpected(b.to, answer)
	}
	return c.settle(b, ack.Partitions, func(p ps.Partition, code wire.Code) {
		switch code {
		case wire.OK:
			k.standing[p] = then
		case wire.Committed:
			k.standing[p] = committed
		case wire.NotStaged: // its owner was replaced
			k.standing[p] = unknown
		}
	})
}
