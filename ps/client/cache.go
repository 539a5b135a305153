package client

import (
	"fmt"
	"math"
	"sync"

	"github.com/tierml/tierml/ps"
)

// Cache keeps the rows that a worker process has read, over clocks, for as long as the job's staleness allows; its
// threads share it. It decides what must be read again, and knows nothing of servers: readers put the answers in.
//
// Invariant: every row holds all work through its folded clock, and each of the worker's own contributions once, also those that
// are still on their way: what was computed is seen at once by what is computed next.
//
//  1. Own adds a contribution to the rows that are here, and keeps its sums: an answer on its way may lack it.
//  2. Put adds to the rows of an answer those of the kept contributions that its stamp does not have (catchUp). Without the stamp a contribution
//     would be missing, or in the row twice, by whether the server had it when it read the row.
//  3. Once a contribution counts everywhere (Counted), each read that begins later holds it. When no earlier read is under way, its sums go (forget).
//
// It is for jobs with staleness: under BSP no row is fresh enough for the next clock.
type Cache struct {
	schema *ps.Schema
	bound  ps.Clock // how many clocks a row may lag behind: ps.Schema.Bound
	reuse  ps.Clock // for how many clocks a row is used that was read for an earlier one
	limit  int      // cells, in addition to those of the last two rounds

	mu         sync.Mutex
	generation ps.Generation
	shelves    []tableRows // by table
	cells      int
	round      uint64
	batch      uint64 // of rows that came together
	own        []ownWork
	tick       uint64
	reads      []uint64 // ticks at which reads under way began
	saved      int64    // cells
}

// tableRows is the rows of a table.
type tableRows struct {
	table *ps.Table
	slots rowIndex
	rows  []ps.RowID
	state []rowState
	cells []float32 // by slot, each as wide as the table
}

type rowState struct {
	folded  ps.Clock // all work through this clock is in the row
	readFor ps.Clock // it was read for work of this clock
	used    uint64   // the last round that read it
	batch   uint64   // with which it came
}

// ownWork is a contribution that an answer on its way may lack.
type ownWork struct {
	sequence uint64
	clock    ps.Clock
	sums     []ps.Sums // by partition
	counted  uint64    // the tick at which it was known to count everywhere; 0 = not yet
}

// CacheBytes is how many bytes of rows are kept in addition to those of the last two rounds.
const CacheBytes = 256 << 20

// NewCache returns an empty cache.
func NewCache(schema *ps.Schema, bytes int) *Cache {
	c := &Cache{schema: schema, bound: schema.Bound(), limit: bytes / 4, reuse: (schema.Staleness + 1) / 2}
	if schema.Staleness == ps.Unbounded {
		c.reuse = 0 // no worker waits, and all see new values
	}
	c.empty()
	return c
}

// ReadLate makes each clock read its rows again.
func (c *Cache) ReadLate() { c.reuse = 0 }

func (c *Cache) empty() {
	c.shelves = make([]tableRows, len(c.schema.Tables))
	for i := range c.shelves {
		t := &c.schema.Tables[i]
		c.shelves[i] = tableRows{table: t, slots: newRowIndex(t.Rows)}
	}
	c.cells, c.own = 0, nil
}

// Enter empties the cache when a generation has begun since: nothing that was read before it counts.
func (c *Cache) Enter(g ps.Generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g != c.generation {
		c.generation = g
		c.empty()
	}
}

// Renew drops all rows, but remembers requests on their way.
func (c *Cache) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cells = 0
	for i := range c.shelves {
		c.shelves[i].sweep(math.MaxUint64)
	}
}

// fresh reports whether work of a clock may use a row. A row is used again for half of what staleness allows, so that what
// is read is seldom as old as it may be.
func (c *Cache) fresh(s *rowState, clock ps.Clock) bool {
	return s.folded >= clock-c.bound-1 && (s.readFor >= clock || s.folded >= clock-1-c.reuse)
}

// Missing appends the keys of rows that must be read before work of a clock may use them. It begins a round: rows that
// neither it nor the previous one requested may go.
func (c *Cache) Missing(clock ps.Clock, keys, missing []ps.Key) []ps.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	for _, k := range keys {
		s := &c.shelves[k.Table]
		slot := s.slots.get(k.Row)
		if slot < 0 || !c.fresh(&s.state[slot], clock) {
			missing = append(missing, k)
			continue
		}
		s.state[slot].used = c.round
		c.saved += int64(s.table.Cols)
	}
	return missing
}

// Copy puts rows of the cache into dst, one after another; false when some are not there, or not fresh enough.
func (c *Cache) Copy(clock ps.Clock, keys []ps.Key, dst []float32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		s := &c.shelves[k.Table]
		slot := s.slots.get(k.Row)
		if slot < 0 || !c.fresh(&s.state[slot], clock) {
			return false
		}
		dst = dst[copy(dst, s.row(slot)):]
	}
	return true
}

// Reading says that a read has been sent; Put or Left must follow, with what it gives.
func (c *Cache) Reading() (began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	c.reads = append(c.reads, c.tick)
	return c.tick
}

// Left ends a read that has brought nothing.
func (c *Cache) Left(began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived(began)
}

func (c *Cache) arrived(began uint64) {
	for i, tick := range c.reads {
		if tick == began {
			c.reads = append(c.reads[:i], c.reads[i+1:]...)
			break
		}
	}
	c.forget()
}

// Put takes an answer: rows that were requested in a generation, for work of a clock, and what their partitions' stamps
// say. Own contributions that they lack are added. An answer of an earlier generation is dropped.
func (c *Cache) Put(
	began uint64, g ps.Generation, clock ps.Clock, keys []ps.Key, values []float32, stamps []ps.Stamp,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.arrived(began)
	if g != c.generation {
		return nil
	}
	c.batch++
	for _, k := range keys {
		s := &c.shelves[k.Table]
		slot := s.slots.get(k.Row)
		if slot < 0 {
			slot = s.add(k.Row)
			c.cells += s.table.Cols
		}
		values = values[copy(s.row(slot), values[:s.table.Cols]):]
		s.state[slot] = rowState{folded: stamps[c.schema.PartitionOf(k)].Folded, readFor: clock, used: c.round, batch: c.batch}
	}
	for i := range c.own {
		if err := c.catchUp(&c.own[i], stamps); err != nil {
			return err
		}
	}
	if c.cells > c.limit {
		c.sweep()
	}
	return nil
}

// catchUp adds own work to those rows of the last batch that lack it.
func (c *Cache) catchUp(o *ownWork, stamps []ps.Stamp) error {
	for p := range o.sums {
		if stamp := stamps[p]; o.sequence <= stamp.Own || o.clock <= stamp.Folded {
			continue
		}
		if err := c.add(&o.sums[p], c.batch); err != nil {
			return err
		}
	}
	return nil
}

// Own takes a contribution that is about to be sent: the rows that are here have it from now on. The sums are kept, and
// must not be changed.
func (c *Cache) Own(g ps.Generation, sequence uint64, clock ps.Clock, sums []ps.Sums) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g != c.generation {
		return nil
	}
	for p := range sums {
		if err := c.add(&sums[p], 0); err != nil {
			return err
		}
	}
	c.own = append(c.own, ownWork{sequence: sequence, clock: clock, sums: sums})
	return nil
}

// Counted says that a contribution counts in every partition: reads that begin from now on hold it.
func (c *Cache) Counted(sequence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	for i := range c.own {
		if c.own[i].sequence == sequence {
			c.own[i].counted = c.tick
		}
	}
	c.forget()
}

// forget drops own work that every answer still to come holds.
func (c *Cache) forget() {
	for len(c.own) > 0 && c.own[0].counted > 0 {
		for _, began := range c.reads {
			if began < c.own[0].counted {
				return
			}
		}
		c.own = append(c.own[:0], c.own[1:]...)
	}
}

// add adds sums to the rows that are here; with a batch, only to those that came with it. Gradients wait at the servers
// for their clock to be complete: no reader sees them before.
func (c *Cache) add(u *ps.Sums, batch uint64) error {
	left := u.Float
	for _, k := range u.Keys {
		n := c.schema.CellsOfSum(k, left)
		cells := left[:n]
		left = left[n:]
		s := &c.shelves[k.Table]
		if s.table.Rule.Name != ps.Add {
			continue
		}
		slot := s.slots.get(k.Row)
		if slot < 0 || batch > 0 && s.state[slot].batch != batch {
			continue
		}
		if err := s.table.AddSum(s.row(slot), cells); err != nil {
			return fmt.Errorf("row %d of table %s: %w", k.Row, s.table.Name, err)
		}
	}
	return nil
}

// sweep drops the rows that neither this round nor the one before has read.
func (c *Cache) sweep() {
	c.cells = 0
	for i := range c.shelves {
		s := &c.shelves[i]
		s.sweep(c.round - 1)
		c.cells += len(s.cells)
	}
}

// Saved returns how many bytes of rows were not read because they were here.
func (c *Cache) Saved() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 4 * c.saved
}

func (s *tableRows) row(slot int) []float32 {
	at := slot * s.table.Cols
	return s.cells[at : at+s.table.Cols]
}

func (s *tableRows) add(row ps.RowID) (slot int) {
	slot = len(s.rows)
	s.slots.put(row, slot)
	s.rows, s.state = append(s.rows, row), append(s.state, rowState{})
	s.cells = append(s.cells, make([]float32, s.table.Cols)...)
	return slot
}

// sweep keeps the rows that were used in a round or later ones, in their order.
func (s *tableRows) sweep(since uint64) {
	kept := 0
	for slot, row := range s.rows {
		if s.state[slot].used < since {
			s.slots.remove(row)
			continue
		}
		if kept != slot {
			s.rows[kept], s.state[kept] = row, s.state[slot]
			copy(s.row(kept), s.row(slot))
			s.slots.put(row, kept)
		}
		kept++
	}
	s.rows, s.state, s.cells = s.rows[:kept], s.state[:kept], s.cells[:kept*s.table.Cols]
}

// Cols returns how many cells a row has.
func (c *Cache) Cols(k ps.Key) int { return c.schema.Cols(k) }
