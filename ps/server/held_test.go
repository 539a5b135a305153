package server_test

import (
	"errors"
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/server"
)

// rowsOf reads a held cut to its end.
func rowsOf(t *testing.T, schema *ps.Schema, h *server.HeldCut) *ps.Block {
	t.Helper()
	rows := &ps.Block{}
	for {
		piece, err := h.Next(64)
		if err != nil {
			t.Fatal(err)
		}
		if len(piece.Keys) == 0 {
			h.Release()
			return rows
		}
		piece.Each(schema, func(k ps.Key, cells []float32) { rows.Add(k, cells) })
	}
}

// A cut is read from its backup while training continues and the next one is committed; then no server holds either any more, and
// everything restarts from what was read: on other servers, one of which held another state.
func TestCutHeldAndBegunAgain(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 3)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(3)
	all := []ps.Partition{0, 1, 2, 3, 4, 5, 6, 7}
	backup := c.nodes["r"]
	if _, err := backup.HoldCut(2, all); !errors.Is(err, ps.ErrInvalid) {
		t.Errorf("a cut that is not there was held: %v", err)
	}
	held, err := backup.HoldCut(3, all)
	if err != nil {
		t.Fatal(err)
	}
	saved := map[ps.Partition]*ps.Block{0: rowsOf(t, &c.schema, held[0])}
	team.start(c.ctx, 4, 6)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(6)
	for i, p := range all[1:] {
		saved[p] = rowsOf(t, &c.schema, held[i+1])
	}
	stock := c.nodes["a"].TakeStock()
	if len(stock.Owned) != 8 || stock.Owned[5].Base != 6 || stock.Owned[5].Folded != 6 || stock.Named != 0 || stock.Suspended {
		t.Errorf("an owner says that it holds %+v", stock)
	}

	c.kill("r")
	other := c.startIn("r2", c.generation+1) // its controller knows the new generation, which no route has announced yet
	for p := range c.route.Owner {
		c.route.Owner[p], c.route.Backup[p] = "r2", "r2"
	}
	c.generation++
	c.nodes["a"].FenceGeneration(c.generation)
	for _, n := range []*node{other, c.nodes["a"]} {
		if err := n.RecoverFrom(c.generation, 3, c.copyRoute(), c.peers, saved); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.RecoverFrom(c.generation, 3, c.copyRoute(), c.peers, saved); err != nil {
		t.Errorf("told again: %v", err)
	}
	if err := other.RecoverFrom(c.generation, 0, c.copyRoute(), c.peers, saved); !errors.Is(err, ps.ErrInvalid) {
		t.Errorf("a generation that is being served went back to another cut: %v", err)
	}
	if left := c.nodes["a"].TakeStock(); len(left.Owned) != 0 || left.Generation != c.generation {
		t.Errorf("what the survivor held is still there: %+v", left)
	}
	for _, cl := range c.clients {
		cl.SetRoute(c.generation, c.copyRoute(), c.peers)
	}
	team.verify(3)
	delete(saved, 5)
	fresh := c.start("r3")
	for p := range c.route.Owner {
		c.route.Owner[p] = "r3"
	}
	if err := fresh.RecoverFrom(c.generation+1, 3, c.copyRoute(), c.peers, saved); !errors.Is(err, ps.ErrInvalid) {
		t.Errorf("a partition that was not saved: %v", err)
	}
}
