package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// The work has the traffic of matrix factorisation: a table that every worker reads and adds to as a whole, as the factors
// of items, and rows that belong to one split each, as those of users, which make the state large. Computing is pacing.
const (
	sharedRows, sharedColumns = 256, 256
	ownColumns                = 1024
	splitWork                 = 1e6 // floating-point operations of a split's clock, by which it is paced
)

type load struct {
	splits int
	// begun is when clocks begin to take their time: before it, while machines join, the few that are there would take
	// minutes for one.
	begun time.Time
}

func (load) Name() string { return "load" }

func (l load) Tables() []ps.Table {
	return []ps.Table{
		{Name: "shared", Rows: sharedRows, Cols: sharedColumns},
		{Name: "own", Rows: uint64(l.splits), Cols: ownColumns},
	}
}

func (l load) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	var written ps.Split
	if _, err := fmt.Fscan(r, &written); err != nil || written != id {
		return nil, fmt.Errorf("the file of split %d holds %d: %w", id, written, err)
	}
	return piece{id, l.begun}, nil
}

func openPiece(_ string, id ps.Split) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(fmt.Sprintln(id))), nil
}

type piece struct {
	id    ps.Split
	begun time.Time
}

func (p piece) Needs(_ ps.Clock, keys []ps.Key) []ps.Key {
	for row := range ps.RowID(sharedRows) {
		keys = append(keys, ps.Key{Row: row})
	}
	return append(keys, ps.Key{Table: 1, Row: ps.RowID(p.id)})
}

func (piece) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

func (p piece) Run(c ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	// A sixteenth of the splits changes a row: a worker, which has sixteen, sends each row once all the same.
	for row := range ps.RowID(sharedRows) {
		cells := rows.Row(ps.Key{Row: row})
		if int(row+ps.RowID(p.id))%16 == 0 {
			for i := range cells {
				cells[i] += 1
			}
		}
	}
	own := rows.Row(ps.Key{Table: 1, Row: ps.RowID(p.id)})
	for i := range own {
		own[i] += float32(c)
	}
	work := float64(splitWork)
	if time.Now().Before(p.begun) {
		work = 1
	}
	return apps.Stats{Examples: 1, Loss: 1, Work: work}, nil
}
