package server_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

// fillGate forwards requests, but from the second piece of a fault-in move on only when it is open.
type fillGate struct {
	wire.Caller
	open chan struct{}
	came chan *wire.MoveFill // the forwarded ones
	shut atomic.Bool         // one waits
}

func (g *fillGate) Handle(ctx context.Context, generation ps.Generation, request wire.Message) wire.Message {
	fill, ok := request.(*wire.MoveFill)
	if ok && fill.Piece > 0 {
		g.shut.Store(true)
		select {
		case <-g.open:
		case <-ctx.Done():
			return &wire.Ack{}
		}
	}
	if _, cancel := request.(*wire.MoveCancel); cancel {
		return &wire.Error{Code: wire.Retry} // it never arrives
	}
	if ok {
		copied := *fill
		copied.Rows.Keys = slices.Clone(fill.Rows.Keys)
		g.came <- &copied
	}
	answer, err := g.Call(ctx, generation, request)
	if refusal := (*wire.Error)(nil); errors.As(err, &refusal) {
		return refusal
	}
	return answer
}

func (g *fillGate) HandleNow(ps.Generation, wire.Message) wire.Message { return nil }

// gated trains two clocks on server a, and puts a gate before r.
func gated(t *testing.T) (*cluster, *team, *fillGate) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 2)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	gate := &fillGate{Caller: c.nodes["r"].Local(), open: make(chan struct{}), came: make(chan *wire.MoveFill, 1000)}
	c.peers["r"] = listen(t, gate)
	return c, team, gate
}

// The new owner answers a read before all rows have arrived, and rows that a read waits for come before the others. A contribution waits.
func TestFaultInServesBeforeItsRowsAreThere(t *testing.T) {
	c, team, gate := gated(t)
	moved := make(chan error, 1)
	go func() { moved <- c.move(c.ctx, 1, "a", "r", server.Move{FaultIn: true}) }()
	await(t, gate.shut.Load)
	first := <-gate.came
	var last ps.Key
	for _, k := range allKeys(&c.schema) {
		if c.schema.PartitionOf(k) == 1 && touches(k, 0, 1) {
			last = k
		}
	}
	if slices.Contains(first.Rows.Keys, last) {
		t.Fatal("all rows are in the first piece: the case was not met")
	}
	read := func(k ps.Key) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := wire.Ask[*wire.Rows](c.ctx, c.nodes["r"].Local(), 1,
				&wire.Read{Clock: 3, Groups: []wire.KeyGroup{{Partition: 1, Keys: 1}}, Keys: []ps.Key{k}})
			done <- err
		}()
		return done
	}
	if err := <-read(first.Rows.Keys[0]); err != nil {
		t.Error(err)
	}
	waiting := read(last)
	select {
	case err := <-waiting:
		t.Errorf("a row was read that has not come: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	gate.open <- struct{}{} // the piece that was sent before any request
	gate.open <- struct{}{}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if <-gate.came; !slices.Contains((<-gate.came).Rows.Keys, last) {
		t.Error("the row that was waited for did not come first")
	}
	team.start(c.ctx, 3, 4) // contributions that did not wait would be lost where rows come later
	time.Sleep(20 * time.Millisecond)
	close(gate.open)
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	c.route.Owner[1] = "r"
	c.announce()
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(4)
}

// A move that is interrupted midway leaves the old owner as it was, though the new one has answered reads and never learns of the end.
func TestFaultInCutOff(t *testing.T) {
	c, team, gate := gated(t)
	ctx, cancel := context.WithCancel(c.ctx)
	moved := make(chan error, 1)
	go func() { moved <- c.move(ctx, 1, "a", "r", server.Move{FaultIn: true}) }()
	await(t, gate.shut.Load)
	team.start(c.ctx, 3, 6) // workers are redirected to the new owner
	cancel()
	if err := <-moved; err == nil {
		t.Fatal("a move ended well that was cut off")
	}
	c.announce()
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(6)
	c.cut(6)
	close(gate.open)
	if err := c.move(c.ctx, 1, "a", "r", server.Move{FaultIn: true, Window: true}); err != nil {
		t.Fatal(err)
	}
	c.route.Owner[1] = "r"
	c.announce()
	team.start(c.ctx, 7, 8)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(8)
}
