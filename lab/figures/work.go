package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// The work has the traffic of matrix factorisation: a table that every worker reads and updates as a whole, like the
// factors of items, and rows that belong to one split each, like those of users, which make the state large. Computing
// is emulated by pacing.
const (
	sharedRows, sharedColumns = 256, 256
	ownColumns                = 4096
	splitWork                 = 1e6 // floating-point operations of a split's clock, for pacing
)

type load struct {
	Splits int
	// Rows is the number of a split's own rows. It changes one in each clock: a cut delivers up to Rows
	// times what a clock changes, as for users whose ratings are in many batches.
	Rows int
	// Begun is a file: once it exists, clocks take their full time. Before that, while machines join, the first few
	// would take minutes per clock.
	Begun string `json:"-"`
}

func (load) Name() string { return "load" }

func (l load) Tables() []ps.Table {
	return []ps.Table{
		// By ranges, so that all servers have equal numbers of rows.
		{Name: "shared", Rows: sharedRows, Cols: sharedColumns, Ranged: true},
		{Name: "own", Rows: uint64(l.Splits * l.Rows), Cols: ownColumns, Ranged: true},
	}
}

func (l load) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	var written ps.Split
	if _, err := fmt.Fscan(r, &written); err != nil || written != id {
		return nil, fmt.Errorf("the file of split %d holds %d: %w", id, written, err)
	}
	return piece{l, id}, nil
}

// noFiles is the folder of the load's splits: each contains only its number.
const noFiles = "none"

func openPiece(_ string, id ps.Split) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(fmt.Sprintln(id))), nil
}

type piece struct {
	load
	id ps.Split
}

// own returns the split's own row that a clock changes.
func (p piece) own(c ps.Clock) ps.Key {
	return ps.Key{Table: 1, Row: ps.RowID(int(p.id)*p.Rows + int(c)%p.Rows)}
}

func (p piece) Needs(c ps.Clock, keys []ps.Key) []ps.Key {
	for row := range ps.RowID(sharedRows) {
		keys = append(keys, ps.Key{Row: row})
	}
	return append(keys, p.own(c))
}

func (piece) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

func (p piece) Run(c ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	// Every row is changed, in one cell, which costs as much to send as any: a worker sends the whole table once for
	// any distribution of splits.
	for row := range ps.RowID(sharedRows) {
		rows.Row(ps.Key{Row: row})[int(c)%sharedColumns]++
	}
	rows.Row(p.own(c))[int(c)%ownColumns]++
	work := float64(splitWork)
	if _, err := os.Stat(p.Begun); err != nil {
		work = 1
	}
	return apps.Stats{Examples: 1, Loss: 1, Work: work}, nil
}
