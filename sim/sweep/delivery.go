package sweep

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
)

// delivery gives out blocks in order and delivers their rows in the same order, whichever finishes first. The oracles'
// blocks come first, so that their results are ready when a row is compared with them.
type delivery struct {
	blocks []block
	take   func(Row) error
	// room bounds the blocks given out but not delivered: others do not pile up behind a slow one.
	room chan struct{}

	mu      sync.Mutex
	given   int
	handed  int           // blocks delivered
	waiting map[int][]Row // finished before their turn
	err     error         // from take: nothing is delivered after it
}

// aheadPerWorker is how many blocks each worker may be ahead of the slowest.
const aheadPerWorker = 64

func newDelivery(blocks []block, take func(Row) error) *delivery {
	return &delivery{blocks: blocks, take: take, room: make(chan struct{}, aheadPerWorker*runtime.GOMAXPROCS(0)), waiting: map[int][]Row{}}
}

// next returns the next block and its number; nil if none is left or ctx is done.
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

// finish stores a block's rows, and delivers all that are next in order.
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

// rest delivers what waits behind blocks that will not finish.
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
		*b = block{} // frees the block's configuration
	}
}
