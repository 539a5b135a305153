package client

import (
	"fmt"
	"math"
	"sync"

	"github.com/tierml/tierml/ps"
)

// Cache keeps the rows that a worker process has read, across clocks, for as long as the job's staleness allows;
// its threads share it. It decides what must be read again, and knows nothing about servers: readers store the
// answers.
//
// Invariant: every row includes all work through its folded clock, and each of the worker's own contributions once,
// including those still in transit: later computations see earlier results at once.
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
	reuse  ps.Clock // how many clocks later a row may be used than the one that it was read for
	limit  int      // cells, in addition to those of the last two rounds

	mu         sync.Mutex
	generation ps.Generation
	shelves    []tableRows // by table
	cells      int
	round      uint64
	batch      uint64 // number of the current batch of rows, which arrived together
	own        []ownWork
	tick       uint64
	reads      []uint64 // ticks at which pending reads began
	saved      int64    // cells
}

// tableRows has the rows of a table.
type tableRows struct {
	table *ps.Table
	slots rowIndex
	rows  []ps.RowID
	state []rowState
	cells []float32 // by slot, each with the table's width
}

type rowState struct {
	folded  ps.Clock // the row includes all work through this clock
	readFor ps.Clock // it was read for work of this clock
	used    uint64   // the last round that read it
	batch   uint64   // the batch with which it arrived
}

// ownWork is a contribution that a pending answer may lack.
type ownWork struct {
	sequence uint64
	clock    ps.Clock
	sums     []ps.Sums // by partition
	counted  uint64    // the tick at which it was known to be committed everywhere; 0 = not yet
}

// CacheBytes is the limit for cached rows, in addition to those of the last two rounds.
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

// Enter empties the cache if a new generation has begun: nothing read before it counts.
func (c *Cache) Enter(g ps.Generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g != c.generation {
		c.generation = g
		c.empty()
	}
}

// Renew drops all rows, but remembers pending requests.
func (c *Cache) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cells = 0
	for i := range c.shelves {
		c.shelves[i].sweep(math.MaxUint64)
	}
}

// fresh reports whether work of a clock may use a row. A row is reused for half of what staleness allows, so that
// values are seldom as old as permitted.
func (c *Cache) fresh(s *rowState, clock ps.Clock) bool {
	return s.folded >= clock-c.bound-1 && (s.readFor >= clock || s.folded >= clock-1-c.reuse)
}

// Missing appends the keys of rows that must be read before work of a clock may use them. It begins a round: rows that
// neither this round nor the previous one requested may be dropped.
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

// Copy copies rows from the cache to dst, concatenated; false if some are missing, or not fresh enough.
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

// Reading records that a read was sent; Put or Left must follow, with its result.
func (c *Cache) Reading() (began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	c.reads = append(c.reads, c.tick)
	return c.tick
}

// Left ends a read without a result.
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

// Put stores an answer: rows that were requested in a generation, for work of a clock, and their partitions' stamps. It
// adds own contributions that the rows lack. It drops an answer of an earlier generation.
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

// catchUp adds own work to rows of the last batch that lack it.
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

// Own adds a contribution that is about to be sent to the cached rows. It keeps the sums, which must not be changed.
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

// Counted records that a contribution is committed in every partition: later reads include it.
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

// forget drops own work that all future answers include.
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

// add adds sums to cached rows; with a batch, only to rows of that batch. Gradients wait at the servers until their
// clock is complete: no reader sees them earlier.
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

// sweep drops the rows that neither this round nor the previous one has read.
func (c *Cache) sweep() {
	c.cells = 0
	for i := range c.shelves {
		s := &c.shelves[i]
		s.sweep(c.round - 1)
		c.cells += len(s.cells)
	}
}

// Saved returns how many bytes of rows were not read thanks to the cache.
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

// sweep keeps the rows that were used in a round or later ones, in order.
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

// Cols returns a row's number of cells.
func (c *Cache) Cols(k ps.Key) int { return c.schema.Cols(k) }
