package sweep

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
)

// delivery gives out blocks in order and hands their rows on in the same order, whichever is done first. Those of the oracles
// come first, so that what they find is there when a row is compared with it.
type delivery struct {
	blocks []block
	take   func(Row) error
	// room bounds how many blocks are given out and not handed on: a slow one does not make the others pile up.
	room chan struct{}

	mu      sync.Mutex
	given   int
	handed  int           // blocks
	waiting map[int][]Row // done before their turn
	err     error         // of take: nothing is handed on after it
}

// aheadPerWorker is how many blocks each worker may be ahead of the slowest.
const aheadPerWorker = 64

func newDelivery(blocks []block, take func(Row) error) *delivery {
	return &delivery{blocks: blocks, take: take, room: make(chan struct{}, aheadPerWorker*runtime.GOMAXPROCS(0)), waiting: map[int][]Row{}}
}

// next returns the next block and its number; nil when there is none, or ctx is done.
func (d *delivery) next(ctx context.Context) (int, *block) {
	select {
	case <-ctx.Done():
		return 0, nil
	case d.room <- struct{}{}:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.given == len(d.blocks) || ctx.Err() != nil {
		<-d.room
		return 0, nil
	}
	d.given++
	return d.given - 1, &d.blocks[d.given-1]
}

// finish takes the rows of a block, and hands on whatever has its turn.
func (d *delivery) finish(i int, rows []Row) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[i] = rows
	for {
		rows, ok := d.waiting[d.handed]
		if !ok {
			return d.err
		}
		d.hand(d.handed, rows)
		d.handed++
		<-d.room
	}
}

// rest hands on what waits behind blocks that will not be done.
func (d *delivery) rest() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(d.waiting)) {
		d.hand(i, d.waiting[i])
	}
	return d.err
}

func (d *delivery) hand(i int, rows []Row) {
	delete(d.waiting, i)
	b := &d.blocks[i]
	b.compare(rows)
	for _, r := range rows {
		if d.err == nil {
			d.err = d.take(r)
		}
	}
	if !b.seeing {
		*b = block{} // a configuration each
	}
}
