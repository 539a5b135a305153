package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// standing is a contribution's state in one partition.
type standing uint8

const (
	unknown standing = iota // not there, as far as is known
	staged
	committed
)

// pieces describes how much of a partition's sums its owner has, without staged ones.
type pieces struct {
	sent  uint32  // number of pieces that it has
	rest  ps.Sums // what it lacks, once it has some
	after ps.Sums // what it will lack after the piece in progress
}

// contribution is a contribution in progress.
type contribution struct {
	client     *Client
	generation ps.Generation
	stage      wire.Stage     // without Partitions
	sums       []ps.Sums      // Index: Partition
	standing   []standing     // Index: Partition
	pieces     []pieces       // Index: Partition
	partitions []ps.Partition // scratch: the partitions of a round
	owners     []server       // scratch
}

// Contribute commits the updates of a set of splits for one clock, all or none. Every partition of the schema takes
// part, with rows or without, since each counts the splits that have finished a clock.
//
// Invariant: no partition commits before every partition has its part, not yet visible. So if this worker dies, the
// controller can always settle (training.settling): if any partition has committed, all can; if none has, all can drop
// it.
//
//  1. Each owner is sent its parts, in as many messages as they take, and answers that they are staged, or were committed before.
//  2. When all are staged, each owner is sent the commit. One owner of all partitions does both by one message.
//  3. An owner that answers "not staged" took over in between: it is sent its parts again, though others have committed. A partition that has
//     moved is followed.
//
// Nothing counts twice: an owner knows the last sequence number of each incarnation, and a promoted backup, which does
// not, knows from the marks how far each split had come (ps.Shard).
//
// It returns once all have committed. After an error it may be called again with the same arguments. ErrStale: the
// generation has ended, and this work is void. Sums must not be changed while it runs.
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
	clear(k.pieces)
	c.contributions.Put(k)
	if err != nil {
		return fmt.Errorf("contribute to clock %d: %w", clock, err)
	}
	return nil
}

// begin initialises a new contribution.
func (k *contribution) begin(c *Client, generation ps.Generation) {
	n := c.schema.Partitions
	k.client, k.generation = c, generation
	k.sums, k.standing = slices.Grow(k.sums[:0], n)[:n], slices.Grow(k.standing[:0], n)[:n]
	k.pieces = slices.Grow(k.pieces[:0], n)[:n]
	clear(k.standing)
	clear(k.pieces)
}

// check rejects what every server would reject, and sorts the sums by partition.
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

// run stages the contribution in each partition, and commits it once it is staged everywhere. An owner may
// be replaced between the two: the new one gets the contribution again, even if others have committed it.
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

// list sets partitions to those with a standing, and reports whether there are any.
func (k *contribution) list(want standing) bool {
	k.partitions = k.partitions[:0]
	for p, standing := range k.standing {
		if standing == want {
			k.partitions = append(k.partitions, ps.Partition(p))
		}
	}
	return len(k.partitions) > 0
}

// stageBatch sends a server its parts, in as many messages as needed.
func (k *contribution) stageBatch(ctx context.Context, b batch) (outcome, error) {
	worst := progress
	for left := b.partitions; len(left) > 0; {
		request := &wire.Contribute{Stage: k.stage}
		request.Partitions = k.fill(left)
		last := request.Partitions[len(request.Partitions)-1]
		part := batch{to: b.to, partitions: left[:len(request.Partitions)], changed: b.changed}
		var message wire.Message = &request.Stage
		if len(request.Partitions) == len(k.sums) && last.Piece == 0 && !last.More { // everything was sent: the server can commit at once
			message = request
		}
		o, err := k.ask(ctx, part, message, staged)
		worst = max(worst, o)
		if err != nil || o == setback {
			return worst, err
		}
		left = left[len(part.partitions):]
		if last.More && k.pieces[last.Partition].sent > last.Piece { // the next piece of the same partition
			left = b.partitions[len(b.partitions)-len(left)-1:]
		}
	}
	return worst, nil
}

// partBytes estimates the size of a partition's part of a message without its sums.
const partBytes = 40

// fill returns the next message's parts of partitions: several that fit, or a piece of the first.
func (k *contribution) fill(partitions []ps.Partition) (parts []wire.PartitionSums) {
	room := wire.Piece(k.client.cfg.MaxBody)
	for i, p := range partitions {
		at := &k.pieces[p]
		part := wire.PartitionSums{Partition: p, Piece: at.sent, Transport: k.client.cfg.Transport, Sums: k.sums[p]}
		if at.sent > 0 {
			part.Sums = at.rest
		}
		if size := partBytes + part.Sums.Bytes(); size > room {
			if i > 0 {
				return parts
			}
			part.Sums, at.after = k.client.schema.CutSums(&part.Sums, room-partBytes)
			part.More = len(at.after.Keys) > 0
		} else {
			at.after = ps.Sums{}
			room -= size
		}
		if parts = append(parts, part); part.More {
			return parts
		}
	}
	return parts
}

func (k *contribution) commitBatch(ctx context.Context, b batch) (outcome, error) {
	request := &wire.Commit{Incarnation: k.stage.Incarnation, Sequence: k.stage.Sequence, Partitions: b.partitions}
	return k.ask(ctx, b, request, committed)
}

// ask sends a request; partitions that succeed get a standing.
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
			if at := &k.pieces[p]; then == staged && len(at.after.Keys) > 0 {
				at.sent, at.rest = at.sent+1, at.after
				return
			}
			k.standing[p] = then
		case wire.Committed:
			k.standing[p] = committed
		case wire.NotStaged: // its owner was replaced
			k.standing[p], k.pieces[p] = unknown, pieces{}
		}
	})
}
