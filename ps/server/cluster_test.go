package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const job = 0x1234

// toy returns a schema whose rows hold integers, so that any lost or doubled update shows, in floats too.
func toy(deterministic bool, staleness ps.Clock) ps.Schema {
	return ps.Schema{
		Tables: []ps.Table{
			{Name: "narrow", Rows: 60, Cols: 1},
			{Name: "wide", Rows: 30, Cols: 7, Init: ps.Init{Low: 100, High: 100.0001}},
			{Name: "counts", Kind: ps.Int32, Rows: 20, Cols: 17, Sparse: true},
			{Name: "rule", Rows: 20, Cols: 3, Rule: ps.Rule{Name: ps.SGD, Rate: 1}}, // gains what the gradient loses
			{Name: "ranged", Rows: 25, Cols: 2, Ranged: true},
		},
		Partitions: 8, Splits: 6, Staleness: staleness, Seed: 5, Deterministic: deterministic,
	}
}

// touches reports whether a split changes a row in a clock, depending on its number.
func touches(k ps.Key, split ps.Split, c ps.Clock) bool {
	return ps.Hash(uint64(split), uint64(c), uint64(k.Table), uint64(k.Row))%3 == 0
}

// work returns the sums that splits contribute to a clock, and the rows that they touch.
func work(s *ps.Schema, splits []ps.Split, c ps.Clock) []client.PartitionSums {
	sums := make([]client.PartitionSums, s.Partitions)
	for _, k := range allKeys(s) {
		fixed, float, changed := make([]int64, s.Cols(k)), make([]float32, s.Cols(k)), false
		for _, split := range splits {
			if !touches(k, split, c) {
				continue
			}
			changed = true
			for i := range fixed {
				gain := gain(s, k, split, i)
				if s.Tables[k.Table].Rule.Name == ps.SGD {
					gain = -gain
				}
				switch s.Kind(k) {
				case ps.Int32:
					fixed[i], ps.Ints(float)[i] = fixed[i]+int64(gain), ps.Ints(float)[i]+int32(gain)
				default:
					fixed[i], float[i] = fixed[i]+int64(gain)<<32, float[i]+gain
				}
			}
		}
		if changed {
			part := &sums[s.PartitionOf(k)]
			part.Partition = s.PartitionOf(k)
			s.AppendSum(&part.Sums, k, fixed, float)
		}
	}
	return slices.DeleteFunc(sums, func(p client.PartitionSums) bool { return len(p.Sums.Keys) == 0 })
}

// gain returns what a split adds to a column of a row that it touches: in a sparse table only to few.
func gain(s *ps.Schema, k ps.Key, split ps.Split, column int) float32 {
	if s.Tables[k.Table].Sparse && column%s.Splits != int(split) {
		return 0
	}
	return float32(split + 1)
}

// gained returns the difference of a column from its initial value.
func gained(s *ps.Schema, k ps.Key, row []float32, column int) float32 {
	if s.Kind(k) == ps.Int32 {
		return float32(ps.Ints(row)[column])
	}
	initial := make([]float32, len(row))
	ps.InitRow(s.Seed, s.Tables[k.Table], k.Table, k.Row, initial)
	return row[column] - initial[column]
}

// mostClocks is more than any test trains.
const mostClocks = 100

// expected returns the change of a column of a row up to a clock.
func expected(s *ps.Schema, k ps.Key, column int, through ps.Clock) (total float32) {
	for c := ps.Clock(1); c <= min(through, mostClocks); c++ {
		for split := range ps.Split(s.Splits) {
			if touches(k, split, c) {
				total += gain(s, k, split, column)
			}
		}
	}
	return total
}

func allKeys(s *ps.Schema) (keys []ps.Key) {
	for t := range s.Tables {
		for row := range s.Tables[t].Rows {
			keys = append(keys, ps.Key{Table: ps.TableID(t), Row: ps.RowID(row)})
		}
	}
	return keys
}

// cluster is a job's servers in one process.
type cluster struct {
	t          testing.TB
	ctx        context.Context
	schema     ps.Schema
	dial       wire.Dialer // of servers and clients
	maxBody    int         // of the frames of servers and clients
	chunk      int         // of deliveries and moves
	generation ps.Generation
	route      ps.Route
	peers      map[ps.ServerID]string
	nodes      map[ps.ServerID]*node
	clients    []*client.Client
	held       chan heldReport
}

type heldReport struct {
	server ps.ServerID
	cut    ps.Clock
}

type node struct {
	*server.Server
	stop func()
}

// newCluster starts servers; the partitions belong to owners and are backed up by the last server.
func newCluster(t testing.TB, schema ps.Schema, dial wire.Dialer, ids ...ps.ServerID) *cluster {
	return newClusterOf(t, schema, dial, 200, ids...)
}

// newClusterOf is newCluster with deliveries and moves in pieces of chunk bytes.
func newClusterOf(t testing.TB, schema ps.Schema, dial wire.Dialer, chunk int, ids ...ps.ServerID) *cluster {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	c := &cluster{
		t: t, ctx: ctx, schema: schema, dial: dial, generation: 1, maxBody: maxBody, chunk: chunk,
		peers: map[ps.ServerID]string{}, nodes: map[ps.ServerID]*node{}, held: make(chan heldReport, 100),
	}
	t.Cleanup(func() {
		for _, cl := range c.clients {
			cl.Close()
		}
		for _, n := range c.nodes {
			n.stop()
		}
		cancel()
	})
	for _, id := range ids {
		c.start(id)
	}
	backup := ids[len(ids)-1]
	owners := ids[:max(len(ids)-1, 1)]
	for p := range schema.Partitions {
		c.route.Owner = append(c.route.Owner, owners[p%len(owners)])
		c.route.Backup = append(c.route.Backup, backup)
		c.nodes[owners[p%len(owners)]].Own([]ps.Partition{ps.Partition(p)})
		c.nodes[backup].BackUp([]ps.Partition{ps.Partition(p)}, false)
	}
	c.announce()
	return c
}

func (c *cluster) start(id ps.ServerID) *node { return c.startIn(id, 0) }

// startIn starts a server that begins in a generation.
func (c *cluster) startIn(id ps.ServerID, generation ps.Generation) *node {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	srv := server.New(server.Config{
		Self: id, Schema: c.schema, Job: job, Listener: listener, Dial: c.dial, ChunkBytes: c.chunk, MaxBody: c.maxBody, Generation: generation,
		OnCutHeld: func(cut ps.Clock, bytes int64, took time.Duration) {
			if bytes < 0 || took < 0 {
				c.t.Errorf("cut %d held: %d bytes in %v", cut, bytes, took)
			}
			c.held <- heldReport{id, cut}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	n := &node{Server: srv, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("server %s: %v", id, err)
		}
	})}
	c.nodes[id] = n
	c.peers[id] = listener.Addr().String()
	return n
}

// kill ends a server without notice.
func (c *cluster) kill(id ps.ServerID) {
	c.nodes[id].stop()
	delete(c.nodes, id)
	delete(c.peers, id)
}

// announce sends the route to all servers and clients.
func (c *cluster) announce() {
	c.route.Version++
	for _, n := range c.nodes {
		n.SetRoute(c.generation, c.copyRoute(), c.peers)
	}
	for _, cl := range c.clients {
		cl.SetRoute(c.generation, c.copyRoute(), c.peers)
	}
}

func (c *cluster) copyRoute() ps.Route {
	return ps.Route{
		Version: c.route.Version, Owner: slices.Clone(c.route.Owner), Backup: slices.Clone(c.route.Backup),
	}
}

func (c *cluster) client(local ps.ServerID) *client.Client {
	cfg := client.Config{Schema: c.schema, Job: job, Dial: c.dial, MaxBody: c.maxBody}
	if local != "" {
		n := c.nodes[local]
		cfg.Local = func(id ps.ServerID) wire.Caller {
			if id == local {
				return n.Local()
			}
			return nil
		}
	}
	cl := client.New(cfg)
	cl.SetRoute(c.generation, c.copyRoute(), c.peers)
	c.clients = append(c.clients, cl)
	return cl
}

// train works on splits from one clock to another, and checks everything that it reads.
func (c *cluster) train(ctx context.Context, generation ps.Generation, cl *client.Client, inc ps.Incarnation, seq *uint64, splits []ps.Split, from, to ps.Clock) error {
	s := &c.schema
	keys := allKeys(s)
	var rows client.Rows
	for clock := from; clock <= to; clock++ {
		if err := cl.Read(ctx, generation, clock, keys, &rows); err != nil {
			return err
		}
		for i, k := range keys {
			if err := check(s, k, rows.At(i), clock); err != nil {
				return err
			}
		}
		*seq++
		if err := cl.Contribute(ctx, generation, inc, *seq, clock, splits, work(s, splits, clock)); err != nil {
			return err
		}
	}
	return nil
}

// check reports whether a row has a value that work of a clock may see.
func check(s *ps.Schema, k ps.Key, row []float32, clock ps.Clock) error {
	for i := range row {
		least := expected(s, k, i, clock-s.Staleness-1)
		most := expected(s, k, i, clock+s.Staleness)
		if s.Deterministic {
			most = least
		}
		if gain := gained(s, k, row, i); gain < least-0.01 || gain > most+0.01 {
			return fmt.Errorf("clock %d reads a gain of %g in row %v, which is not from %g to %g", clock, gain, k, least, most)
		}
	}
	return nil
}

// team is workers with two splits each.
type team struct {
	*cluster
	members []*member
	running sync.WaitGroup
}

type member struct {
	client   *client.Client
	inc      ps.Incarnation
	sequence uint64
	splits   []ps.Split
	err      error
}

func (c *cluster) team(local ...ps.ServerID) *team {
	t := &team{cluster: c}
	for i := range c.schema.Splits / 2 {
		id := ps.ServerID("")
		if i < len(local) {
			id = local[i]
		}
		t.members = append(t.members, &member{
			client: c.client(id), inc: ps.Incarnation(i + 1), splits: []ps.Split{ps.Split(2*i + 1), ps.Split(2 * i)},
		})
	}
	return t
}

func (t *team) start(ctx context.Context, from, to ps.Clock) {
	generation := t.generation
	for _, m := range t.members {
		t.running.Go(func() { m.err = t.train(ctx, generation, m.client, m.inc, &m.sequence, m.splits, from, to) })
	}
}

func (t *team) wait() error { return errors.Join(t.errors()...) }

// errors waits, and returns each worker's final error.
func (t *team) errors() (errs []error) {
	t.running.Wait()
	for _, m := range t.members {
		errs = append(errs, m.err)
	}
	return errs
}

// verify reads everything after a clock and checks it.
func (t *team) verify(folded ps.Clock) {
	t.cluster.t.Helper()
	for table := range t.schema.Tables {
		rows := 0
		err := t.members[0].client.ReadTable(t.ctx, t.generation, folded, ps.TableID(table), func(id ps.RowID, row []float32) error {
			rows++
			k := ps.Key{Table: ps.TableID(table), Row: id}
			for i := range t.schema.Cols(k) {
				want := expected(&t.schema, k, i, folded)
				if gain := gained(&t.schema, k, row, i); gain < want-0.01 || gain > want+0.01 {
					return fmt.Errorf("row %v gained %g through clock %d, not %g", k, gain, folded, want)
				}
			}
			return nil
		})
		if err != nil {
			t.cluster.t.Fatal(err)
		}
		if uint64(rows) != t.schema.Tables[table].Rows {
			t.cluster.t.Fatalf("%d rows of table %d", rows, table)
		}
	}
}

// ways are the ways in which a partition can move.
var ways = []server.Move{{}, {Window: true}, {FaultIn: true}, {Window: true, FaultIn: true}}

// move hands a partition of one server to another.
func (c *cluster) move(ctx context.Context, p ps.Partition, from, to ps.ServerID, way server.Move) error {
	way.Partition, way.To, way.Address = p, to, c.peers[to]
	_, err := c.nodes[from].MoveOut(ctx, way)
	return err
}

// cut names a cut everywhere, waits until the backup holds it and commits it.
func (c *cluster) cut(at ps.Clock) {
	c.t.Helper()
	for id, n := range c.nodes {
		if err := n.NameCut(at); err != nil {
			c.t.Fatalf("%s: %v", id, err)
		}
	}
	c.awaitHeld(at)
	for id, n := range c.nodes {
		if err := n.CommitCut(at); err != nil {
			c.t.Fatalf("%s: %v", id, err)
		}
	}
}

func (c *cluster) awaitHeld(cut ps.Clock) {
	c.t.Helper()
	for {
		select {
		case h := <-c.held:
			if h.cut == cut {
				return
			}
		case <-c.ctx.Done():
			c.t.Fatalf("cut %d never arrived", cut)
		}
	}
}

// recover returns all servers to a cut; the route must be right.
func (c *cluster) recover(cut ps.Clock) {
	c.t.Helper()
	c.generation++
	c.route.Version++
	for _, n := range c.nodes {
		n.FenceGeneration(c.generation)
	}
	for id, n := range c.nodes {
		if err := n.Recover(c.generation, cut, c.copyRoute(), c.peers); err != nil {
			c.t.Fatalf("%s: %v", id, err)
		}
	}
	for _, cl := range c.clients {
		cl.SetRoute(c.generation, c.copyRoute(), c.peers)
	}
}
