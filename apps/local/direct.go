package local

import (
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// Direct trains in one process on the tables themselves, for applications that support it: as fast as the machine
// allows, but without the guarantee of the same bits as a distributed run. It is not safe for concurrent use.
type Direct struct {
	apps.DirectTrainer
	clock ps.Clock
}

// NewDirect loads all splits and sets all rows' initial values.
func NewDirect(program apps.Direct, seed uint64, open apps.Open, threads int) (*Direct, error) {
	trainer, err := program.NewDirect(open, seed, max(threads, 1))
	if err != nil {
		return nil, fmt.Errorf("train in one process: %w", err)
	}
	return &Direct{DirectTrainer: trainer}, nil
}

// Clock returns the last finished clock.
func (d *Direct) Clock() ps.Clock { return d.clock }

// Tables returns the tables to evaluate and export.
func (d *Direct) Tables() apps.Rows { return d.DirectTrainer }

// Step does one clock and returns its figures. If evaluate is set, they include the held-out examples as of
// the clock's start. After an error the trainer must not be used.
func (d *Direct) Step(evaluate bool) (apps.Stats, error) {
	stats, err := d.DirectTrainer.Step(d.clock+1, evaluate)
	if err != nil {
		return stats, fmt.Errorf("clock %d: %w", d.clock+1, err)
	}
	d.clock++
	return stats, nil
}
