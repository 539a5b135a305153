package mf

import (
	"math"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// sharedTables are tables whose rows are laid out as a worker lays out shared ones.
type sharedTables [][][]float32

func newSharedTables(p *Program, seed uint64) sharedTables {
	var tables sharedTables
	for id, table := range p.Tables() {
		rows := make([][]float32, table.Rows)
		for row := range rows {
			rows[row] = make([]float32, table.Cols, apps.Room(table.Cols))
			ps.InitRow(seed, table, ps.TableID(id), ps.RowID(row), rows[row])
		}
		tables = append(tables, rows)
	}
	return tables
}

func (s sharedTables) Table(t ps.TableID) [][]float32 { return s[t] }
func (s sharedTables) Row(k ps.Key) []float32         { return s[k.Table][k.Row] }

// step lets groups of splits do a clock, each on a copy of its own, and adds up what they changed.
func (s sharedTables) step(t *testing.T, groups [][]apps.Split, c ps.Clock) {
	t.Helper()
	sums := s.clone()
	for _, group := range groups {
		own := s.clone()
		for _, split := range group {
			if _, err := split.(apps.Sharing).RunShared(c, own, false); err != nil {
				t.Fatal(err)
			}
		}
		for table := range s {
			for row := range s[table] {
				for j := range s[table][row] {
					sums[table][row][j] += own[table][row][j] - s[table][row][j]
				}
			}
		}
	}
	copy(s, sums)
}

func (s sharedTables) clone() sharedTables {
	clone := make(sharedTables, len(s))
	for table := range s {
		for _, row := range s[table] {
			clone[table] = append(clone[table], append(make([]float32, 0, cap(row)), row...))
		}
	}
	return clone
}

func loadAll(t *testing.T, p *Program, files folder, workers int) [][]apps.Split {
	t.Helper()
	groups := make([][]apps.Split, workers)
	for id := range ps.Split(p.data.Splits) {
		file, err := files.open(id)
		if err != nil {
			t.Fatal(err)
		}
		split, err := p.LoadSplit(id, file, 1)
		if err != nil {
			t.Fatal(err)
		}
		groups[int(id)%workers] = append(groups[int(id)%workers], split)
	}
	return groups
}

// RunShared takes the very steps that learn takes, one for each rating of the batch.
func TestSharedStepsAreThoseOfTheKernel(t *testing.T) {
	files, dataset := prepareFile(t, jester, apps.Cut{Splits: 4, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"rank": 20, "batches": 3}, dataset)
	fast, slow := newSharedTables(p, 1), newSharedTables(p, 1)
	for _, group := range loadAll(t, p, files, 1) {
		for c := ps.Clock(1); c <= 4; c++ {
			for _, each := range group {
				s := each.(*split)
				stats, err := s.RunShared(c, fast, true)
				if err != nil {
					t.Fatal(err)
				}
				squares := s.slowShared(c, slow) * p.ratings.Scale * p.ratings.Scale
				if b := s.batchAt(c); stats.Examples != int64(len(b.examples)) || stats.TestCount != int64(len(s.data.test)) ||
					math.Abs(stats.Loss-squares) > 1e-3*squares {
					t.Fatalf("clock %d of split %d: %+v; want %d ratings and loss %v", c, s.data.id, stats, len(b.examples), squares)
				}
			}
		}
	}
	for table := range slow {
		for row := range slow[table] {
			for j, want := range slow[table][row] {
				if got := fast[table][row][j]; math.Abs(float64(got-want)) > 1e-3 {
					t.Fatalf("table %d, row %d, column %d: %v, want %v", table, row, j, got, want)
				}
			}
			for _, x := range fast[table][row][len(slow[table][row]):cap(fast[table][row])] {
				if x != 0 {
					t.Fatalf("table %d, row %d: %v behind the columns", table, row, x)
				}
			}
		}
	}
}

// slowShared is the clock's steps by the kernel of deterministic mode.
func (s *split) slowShared(c ps.Clock, rows sharedTables) (squares float64) {
	p := s.program
	step := p.stepAt(c)
	for _, cell := range s.shared.cells[s.batchNumber(c)] {
		item := s.data.items[cell.Column]
		e := float64(learn(rows[tableUsers][s.data.users[cell.Row].row], rows[tableItems][item.row], cell.Value,
			p.rates(step), p.rates(p.itemStep(step, item.count))))
		squares += e * e
	}
	return squares
}

// Jobs that are not deterministic are as good, with one worker and with eight.
func TestSharedQuality(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this trains for some seconds: leave -short out")
	}
	const clocks, bar = 320, 0.918 // one seed: the mean of five is to be below 0.915
	files, dataset := prepareFile(t, movielens, apps.Cut{Splits: 64, Holdout: 0.2, Seed: 1})
	p := program(t, nil, dataset)
	for _, workers := range []int{1, 8} {
		tables, groups := newSharedTables(p, 1), loadAll(t, p, files, workers)
		for c := range ps.Clock(clocks) {
			tables.step(t, groups, c+1)
		}
		stats, err := p.Evaluate(tables, files.open)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Score(stats.TestLoss, stats.TestCount)
		t.Logf("%d workers: test RMSE %.4f", workers, got)
		if got > bar {
			t.Errorf("%d workers: test RMSE %.4f; want at most %v", workers, got, bar)
		}
	}
}
