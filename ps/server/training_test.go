package server_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

// maxBody is the clusters' frame limit. With tinyBody almost everything travels in pieces of a row or two.
var maxBody int

const tinyBody = 640

// modes runs a test under each consistency model, with frames of any length and with tiny ones.
func modes(t *testing.T, f func(t *testing.T, schema ps.Schema)) {
	eachMode(t, f)
	maxBody = tinyBody
	defer func() { maxBody = 0 }()
	t.Run("tiny frames", func(t *testing.T) { eachMode(t, f) })
}

func eachMode(t *testing.T, f func(t *testing.T, schema ps.Schema)) {
	for name, schema := range map[string]ps.Schema{
		"deterministic": toy(true, 0), "BSP": toy(false, 0), "SSP": toy(false, 2), "ASP": toy(false, ps.Unbounded),
	} {
		t.Run(name, func(t *testing.T) { f(t, schema) })
	}
}

func TestTablesHoldTheWorkDone(t *testing.T) {
	modes(t, func(t *testing.T, schema ps.Schema) {
		c := newCluster(t, schema, nil, "a", "b", "r")
		team := c.team("a") // one of the workers has a server in its process
		team.start(c.ctx, 1, 8)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.verify(8)
		stats := c.nodes["a"].Stats()
		if stats.Folded != 8 || stats.Owned != 4 || stats.CutBytes == 0 || stats.BytesIn == 0 || stats.BytesOut == 0 || stats.Generation != 1 {
			t.Errorf("stats %+v", stats)
		}
	})
}

func TestPartitionsMoveWhileTraining(t *testing.T) {
	modes(t, func(t *testing.T, schema ps.Schema) {
		c := newCluster(t, schema, nil, "a", "b", "r")
		team := c.team("a")
		team.start(c.ctx, 1, 15)
		moved := make(chan error, 1)
		go func() { moved <- c.moveAround(40) }()
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		if err := <-moved; err != nil {
			t.Fatal(err)
		}
		team.verify(15)
		owned := 0
		for _, n := range c.nodes {
			owned += n.Stats().Owned
		}
		if owned != schema.Partitions {
			t.Errorf("%d partitions are owned", owned)
		}
	})
}

// moveAround moves partitions at random, and announces the route only sometimes.
func (c *cluster) moveAround(times int) error {
	random := rand.New(rand.NewPCG(1, 2))
	ids := []ps.ServerID{"a", "b", "r"}
	for i := range times {
		p := ps.Partition(random.IntN(c.schema.Partitions))
		from, to := c.route.Owner[p], ids[random.IntN(len(ids))]
		if from == to {
			continue
		}
		if err := c.move(c.ctx, p, from, to, ways[i%len(ways)]); err != nil {
			return err
		}
		c.route.Owner[p] = to
		if i%7 == 0 {
			c.announce()
		}
	}
	return nil
}

func TestRollBackToCommittedCut(t *testing.T) {
	modes(t, func(t *testing.T, schema ps.Schema) {
		c := newCluster(t, schema, nil, "a", "b", "r")
		team := c.team()
		team.start(c.ctx, 1, 3)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.start(c.ctx, 4, 12)
		for at := ps.Clock(12); ; at++ { // named while training continues
			if err := c.nodes["a"].NameCut(at); err == nil {
				c.cut(at)
				break
			} else if !errors.Is(err, ps.ErrPassed) {
				t.Fatal(err)
			}
		}
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.start(c.ctx, 13, 16)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.verify(16)
		c.recover(12)
		team.verify(12)
		team.start(c.ctx, 13, 17)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.verify(17)
	})
}

func TestOwnerDies(t *testing.T) {
	modes(t, func(t *testing.T, schema ps.Schema) {
		c := newCluster(t, schema, nil, "a", "b", "r")
		team := c.team()
		team.start(c.ctx, 1, 4)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		c.cut(4)
		// An owner cannot undo a partition that has moved since the cut.
		if err := c.move(c.ctx, 0, "a", "b", server.Move{}); err != nil {
			t.Fatal(err)
		}
		c.route.Owner[0] = "b"
		team.start(c.ctx, 5, 1000)
		await(t, func() bool { return c.nodes["b"].Stats().Folded >= 6 })
		c.kill("a")
		c.generation++
		for _, n := range c.nodes {
			h := n.FenceGeneration(c.generation)
			for _, p := range h.Owned {
				if p == 0 {
					t.Error("partition 0 claims undo after a move")
				}
			}
		}
		for p, owner := range c.route.Owner {
			if owner == "a" || p == 0 {
				c.route.Owner[p] = "r"
			}
		}
		c.route.Version++
		for id, n := range c.nodes {
			for range 2 { // a notification comes twice
				if err := n.Recover(c.generation, 4, c.copyRoute(), c.peers); err != nil {
					t.Fatalf("%s: %v", id, err)
				}
			}
		}
		for _, cl := range c.clients {
			cl.SetRoute(c.generation, c.copyRoute(), c.peers)
		}
		// Clients that only contacted the dead server learn the new generation from their route.
		for _, err := range team.errors() {
			if !errors.Is(err, client.ErrStale) {
				t.Fatalf("a worker ends with %v, not ErrStale", err)
			}
		}
		team.verify(4)
		team.start(c.ctx, 5, 9)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.verify(9)
		c.cut(9) // the next cut works for promoted and returned partitions alike
	})
}

func TestEndOfLifeFlush(t *testing.T) {
	modes(t, func(t *testing.T, schema ps.Schema) {
		c := newCluster(t, schema, nil, "a", "b", "r")
		team := c.team()
		team.start(c.ctx, 1, 5)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		c.cut(5)
		c.kill("a")
		c.kill("b")
		team.start(c.ctx, 6, 9) // waits for the promoted partitions
		var all []ps.Partition
		for p := range c.route.Owner {
			all = append(all, ps.Partition(p))
			c.route.Owner[p] = "r"
		}
		for range 2 {
			if err := c.nodes["r"].Promote(5, all); err != nil {
				t.Fatal(err)
			}
		}
		c.announce()
		// A worker that never heard that its contribution was committed sends it again: it counts once.
		late := c.client("")
		if err := late.Contribute(c.ctx, 1, 1, 5, 5, team.members[0].splits, work(&schema, team.members[0].splits, 5)); err != nil {
			t.Error(err)
		}
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.verify(9)
	})
}

// A new backup has nothing, so it takes everything; undelivered cuts can be revoked.
func TestBackupReplaced(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 3)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(3)
	c.kill("r")
	n := c.start("r2")
	for p := range c.route.Backup {
		c.route.Backup[p] = "r2"
		n.BackUp([]ps.Partition{ps.Partition(p)}, true)
	}
	c.announce()
	for _, n := range c.nodes {
		if err := n.NameCut(6); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.nodes {
		n.UnnameCut(6)
	}
	team.start(c.ctx, 4, 6)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(6)
	if h := n.FenceGeneration(1); len(h.Backups) != 8 || h.Backups[0].Cut != 6 {
		t.Errorf("the new backup holds %+v", h.Backups)
	}
	c.kill("a")
	for p := range c.route.Owner {
		c.route.Owner[p] = "r2"
	}
	c.recover(6)
	team.verify(6)
}

func TestFencedWorkerIsRefusedEverywhere(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "b", "r")
	team := c.team()
	team.start(c.ctx, 1, 2)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(2)
	standings := 0
	for _, n := range c.nodes {
		for _, st := range n.FenceWorker(1) {
			standings++
			if st.Standing.Committed != 2 || st.Standing.Staged != 0 || len(st.Marks) != 6 || st.Marks[0] != 2 {
				t.Errorf("standing %+v", st)
			}
		}
		if err := n.SettleWorker(1, 3, false); err != nil {
			t.Error(err)
		}
	}
	if standings != 8 {
		t.Errorf("%d standings", standings)
	}
	m := team.members[0]
	refused := func() {
		t.Helper()
		err := m.client.Contribute(c.ctx, 1, 1, 3, 3, m.splits, work(&c.schema, m.splits, 3))
		if !errors.Is(err, client.ErrFenced) {
			t.Errorf("the fenced worker gets %v", err)
		}
	}
	refused()
	// Partitions that reach a server later refuse it too.
	c.kill("a")
	for p, owner := range c.route.Owner {
		if owner == "a" {
			c.route.Owner[p] = "r"
			if err := c.nodes["r"].Promote(2, []ps.Partition{ps.Partition(p)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.announce()
	refused()
	ack, err := wire.Ask[*wire.Ack](c.ctx, c.nodes["r"].Local(), 1, &wire.Stage{
		Incarnation: 1, Sequence: 3, Clock: 3, Splits: []ps.Split{0}, Partitions: []wire.PartitionSums{{Partition: 0}},
	})
	if err != nil || ack.Partitions[0].Code != wire.Fenced {
		t.Errorf("a promoted partition answers %+v, %v", ack, err)
	}
	// Another incarnation takes over the splits.
	m.inc, m.sequence = 77, 0
	team.start(c.ctx, 3, 5)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(5)
}

func TestSettleCommitsWhatWasStaged(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	splits := []ps.Split{0, 1, 2, 3, 4, 5}
	stage := &wire.Stage{Incarnation: 9, Sequence: 1, Clock: 1, Splits: splits}
	sums := work(&c.schema, splits, 1)
	for p := range c.schema.Partitions {
		part := wire.PartitionSums{Partition: ps.Partition(p)}
		for _, s := range sums {
			if s.Partition == part.Partition {
				part = s
			}
		}
		stage.Partitions = append(stage.Partitions, part)
	}
	ask := c.nodes["a"].Local()
	for range 2 {
		if _, err := wire.Ask[*wire.Ack](c.ctx, ask, 1, stage); err != nil {
			t.Fatal(err)
		}
	}
	// One partition commits, then the worker dies.
	if _, err := wire.Ask[*wire.Ack](c.ctx, ask, 1, &wire.Commit{Incarnation: 9, Sequence: 1, Partitions: []ps.Partition{3}}); err != nil {
		t.Fatal(err)
	}
	for _, st := range c.nodes["a"].FenceWorker(9) {
		if st.Partition == 3 && st.Standing.Committed != 1 || st.Partition != 3 && st.Standing.Staged != 1 {
			t.Errorf("standing %+v", st)
		}
	}
	if err := c.nodes["a"].SettleWorker(9, 1, true); err != nil {
		t.Fatal(err)
	}
	team.verify(1)
}

// Every message of a move may be sent again.
func TestMoveMessagesRepeat(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "b", "r")
	schema := &c.schema
	shard := ps.NewShard(schema, 0)
	if err := shard.BeginMove(); err != nil {
		t.Fatal(err)
	}
	final, err := shard.FinalMove()
	if err != nil {
		t.Fatal(err)
	}
	ask := c.nodes["r"].Local()
	id := wire.MoveID{From: "x", Number: 1, Partition: 0}
	for _, m := range []wire.Message{
		&wire.MoveRows{Move: id}, &wire.MoveRows{Move: id}, &wire.MoveRows{Move: id, Piece: 1}, &wire.MoveRows{Move: id},
		&wire.MoveFinal{Move: id, Pieces: 2, Final: *final}, &wire.MoveFinal{Move: id, Pieces: 2, Final: *final},
		&wire.MoveDone{Move: id}, &wire.MoveDone{Move: id}, &wire.MoveFinal{Move: id, Pieces: 2, Final: *final},
	} {
		if _, err := wire.Ask[*wire.Ack](c.ctx, ask, 1, m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if n := c.nodes["r"].Stats().Owned; n != 1 {
		t.Errorf("the receiver owns %d partitions", n)
	}
	id.Number++
	other := wire.MoveID{From: "y", Number: 9, Partition: 0}
	for _, m := range []wire.Message{
		&wire.MoveRows{Move: id, Piece: 3}, &wire.MoveFinal{Move: id}, &wire.MoveDone{Move: id}, &wire.MoveRows{Move: other},
	} {
		if _, err := wire.Ask[*wire.Ack](c.ctx, ask, 1, m); !errors.Is(err, ps.ErrInvalid) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

// Data from a move that was cancelled without the receiver's knowledge gives way to the next move of the partition, from any server; but
// not to late messages of an ended move. A route shows as well as the sender that the partition is here.
func TestMoveAfterOneThatWasCancelled(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "b", "r")
	shard := ps.NewShard(&c.schema, 0)
	if err := shard.BeginMove(); err != nil {
		t.Fatal(err)
	}
	final, err := shard.FinalMove()
	if err != nil {
		t.Fatal(err)
	}
	r := c.nodes["r"]
	messages := func(id wire.MoveID) []wire.Message {
		return []wire.Message{&wire.MoveRows{Move: id}, &wire.MoveFinal{Move: id, Pieces: 1, Final: *final}}
	}
	cancelled := wire.MoveID{From: "a", Version: c.route.Version, Number: 2}
	next := wire.MoveID{From: "b", Version: c.route.Version + 1, Number: 1}
	for _, m := range append(messages(cancelled), messages(next)...) {
		if _, err := wire.Ask[*wire.Ack](c.ctx, r.Local(), 1, m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	before := wire.MoveID{From: "a", Version: c.route.Version, Number: 1}
	for _, m := range append(append(messages(cancelled), messages(before)...), &wire.MoveDone{Move: cancelled}) {
		if _, err := wire.Ask[*wire.Ack](c.ctx, r.Local(), 1, m); !errors.Is(err, ps.ErrInvalid) {
			t.Errorf("late, %+v: %v", m, err)
		}
	}
	for _, owned := range []int{0, 1} {
		c.route.Owner[0] = "r"
		c.announce() // the first is the route by which the sender owned it
		if n := r.Stats().Owned; n != owned {
			t.Errorf("by route %d, the receiver owns %d partitions, not %d", c.route.Version, n, owned)
		}
	}
}

func TestGenerations(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	ask := c.nodes["a"].Local()
	for generation, want := range map[ps.Generation]error{0: wire.ErrStale, 1: nil, 2: wire.ErrRetry} {
		_, err := wire.Ask[*wire.Rows](c.ctx, ask, generation, &wire.Read{Clock: 1})
		if !errors.Is(err, want) {
			t.Errorf("generation %d gets %v, not %v", generation, err, want)
		}
	}
	h := c.nodes["a"].FenceGeneration(2)
	if len(h.Owned) != 8 || h.Undo != 0 || len(h.Backups) != 0 {
		t.Errorf("holdings %+v", h)
	}
	for generation, want := range map[ps.Generation]error{1: wire.ErrStale, 2: wire.ErrRetry} {
		_, err := wire.Ask[*wire.Rows](c.ctx, ask, generation, &wire.Read{Clock: 1})
		if !errors.Is(err, want) {
			t.Errorf("while fenced, generation %d gets %v, not %v", generation, err, want)
		}
	}
	if err := c.nodes["a"].NameCut(4); !errors.Is(err, ps.ErrBusy) {
		t.Errorf("a cut named while fenced: %v", err)
	}
	if err := c.nodes["a"].Recover(2, 7, c.copyRoute(), c.peers); err == nil {
		t.Error("returned to a cut that nobody holds")
	}
	if err := c.nodes["a"].Recover(2, 0, c.copyRoute(), c.peers); err != nil {
		t.Error(err)
	}
	if err := c.nodes["a"].Recover(1, 0, c.copyRoute(), c.peers); !errors.Is(err, wire.ErrStale) {
		t.Errorf("recovery of an older generation: %v", err)
	}
	if _, err := wire.Ask[*wire.Rows](c.ctx, ask, 2, &wire.Read{Clock: 1}); err != nil {
		t.Error(err)
	}
	// A server that missed a whole generation has nothing of the new one.
	c.nodes["a"].SetRoute(5, c.copyRoute(), c.peers)
	if s := c.nodes["a"].Stats(); s.Owned != 0 || s.Generation != 5 {
		t.Errorf("after a missed generation: %+v", s)
	}
}

// A controller that takes over a run revokes the cut that its predecessor had named, and names one at the same clock if no work is done
// meanwhile. It is delivered and reported again, even if its backup has not forgotten it.
func TestCutNamedAgain(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 3)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	name := func() {
		t.Helper()
		for id, n := range c.nodes {
			if err := n.NameCut(3); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
		c.awaitHeld(3)
	}
	name()
	for _, forgetful := range [][]ps.ServerID{{"r", "a"}, {"a", "r"}, {"a"}} {
		for _, id := range forgetful {
			c.nodes[id].UnnameCut(3)
		}
		for len(c.held) > 0 {
			<-c.held
		}
		name()
	}
	for id, n := range c.nodes {
		if err := n.CommitCut(3); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestCutNames(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	a := c.nodes["a"]
	if err := c.nodes["r"].NameCut(3); err != nil {
		t.Errorf("a server that owns nothing: %v", err)
	}
	if err := a.NameCut(3); err != nil {
		t.Fatal(err)
	}
	if err := a.NameCut(4); !errors.Is(err, ps.ErrBusy) {
		t.Errorf("second cut: %v", err)
	}
	if err := c.move(c.ctx, 0, "a", "r", server.Move{}); !errors.Is(err, ps.ErrBusy) {
		t.Errorf("move during a cut: %v", err)
	}
	if err := a.CommitCut(3); err == nil {
		t.Error("committed a cut that was not passed")
	}
	a.UnnameCut(3)
	if err := c.move(c.ctx, 0, "a", "r", server.Move{}); err != nil {
		t.Fatal(err)
	}
	c.route.Owner[0] = "r"
	c.announce()
	team := c.team()
	team.start(c.ctx, 1, 2)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	if err := a.NameCut(1); !errors.Is(err, ps.ErrPassed) {
		t.Errorf("a cut in the past: %v", err)
	}
	c.cut(2)
}

// The controller dies while backups move. For the next one the old backup, informed again that its cut is committed, is still its holder;
// and the new one, which no route has named, does not wait for a delivery that never comes.
func TestBackupsWhoseMoveWasForgotten(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 3)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(3)
	r, r2 := c.nodes["r"], c.start("r2")
	c.route.Backup[0], c.route.Backup[1] = "r2", "r2"
	r2.BackUp([]ps.Partition{0, 1, 2}, true)
	c.announce()
	if err := r.CommitCut(3); err != nil {
		t.Fatal(err)
	}
	if h := r.TakeStock(); len(h.Backups) != 8 {
		t.Errorf("told again of its cut, the old backup holds %d of 8 partitions", len(h.Backups))
	}
	c.route.Backup[1] = "r"
	c.announce()
	for _, n := range c.nodes {
		if err := n.NameCut(6); err != nil {
			t.Fatal(err)
		}
	}
	team.start(c.ctx, 4, 6)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	for waiting := map[ps.ServerID]bool{"r": true, "r2": true}; len(waiting) > 0; {
		select {
		case h := <-c.held:
			if h.cut == 6 {
				delete(waiting, h.server)
			}
		case <-c.ctx.Done():
			t.Fatalf("%v never said that it holds the cut", waiting)
		}
	}
	for _, n := range c.nodes {
		if err := n.CommitCut(6); err != nil {
			t.Fatal(err)
		}
	}
	if h, h2 := r.TakeStock(), r2.TakeStock(); len(h.Backups) != 7 || len(h2.Backups) != 1 {
		t.Errorf("the backups hold %+v and %+v", h.Backups, h2.Backups)
	}
}
