package mf

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

func randomCells(seed uint64, users, items, n int) []fast.Cell {
	r := rand.New(rand.NewPCG(seed, 1))
	cells := make([]fast.Cell, n)
	for i := range cells {
		// Squares: a few users and items have most of the ratings.
		u, v := r.Float64(), r.Float64()
		cells[i] = fast.Cell{Row: uint32(u * u * float64(users)), Column: uint32(v * v * float64(items)), Value: float32(i)}
	}
	slices.SortStableFunc(cells, func(a, b fast.Cell) int { return int(a.Row) - int(b.Row) })
	return cells
}

func TestGridHoldsEveryRatingOnce(t *testing.T) {
	for _, c := range []struct{ users, items, n, batches, vectorBytes, threads int }{
		{3, 2, 10, 1, 64, 1}, {1, 1, 1, 4, 64, 1}, {200, 90, 30_000, 2, 128, 2}, {300, 500, 50_000, 4, 4032, 9}, {2, 700, 90_000, 1, 448, 4},
	} {
		cells := randomCells(uint64(c.n), c.users, c.items, c.n)
		g := newGrid(cells, gridSize{c.users, c.items, c.users, c.items}, c.batches, c.vectorBytes, c.threads)
		var held []fast.Cell
		batchOf := make(map[uint32]int)
		for batch, blocks := range g.blocks {
			for _, block := range blocks {
				held = append(held, block...)
				for _, cell := range block {
					if b, seen := batchOf[cell.Row]; seen && b != batch {
						t.Fatalf("%+v: user %d is in batches %d and %d", c, cell.Row, b, batch)
					}
					batchOf[cell.Row] = batch
				}
			}
		}
		byValue := func(a, b fast.Cell) int { return int(a.Value) - int(b.Value) }
		slices.SortFunc(held, byValue)
		slices.SortFunc(cells, byValue)
		if !slices.Equal(held, cells) {
			t.Fatalf("%+v: %d ratings in the grid of %d by %d, want the %d given", c, len(held), g.users, g.items, len(cells))
		}
	}
}

// Tasks that run at the same time share neither users nor items.
func TestGridBlocksAtTheSameTimeAreDisjoint(t *testing.T) {
	cells := randomCells(3, 300, 200, 60_000)
	g := newGrid(cells, gridSize{300, 200, 300, 200}, 1, 4032, 8)
	var lock sync.Mutex
	users, items := make([]int, 300), make([]int, 200) // tasks that hold them
	hold := func(task, n int) {
		lock.Lock()
		defer lock.Unlock()
		for _, c := range g.blocks[0][task] {
			for _, held := range []*int{&users[c.Row], &items[c.Column]} {
				if n > 0 && *held != 0 && *held != task+1 {
					t.Errorf("tasks %d and %d share a row", *held-1, task)
				}
				*held = n * (task + 1)
			}
		}
	}
	for range 5 {
		g.order.Run(8, func(task int) {
			hold(task, 1)
			hold(task, 0)
		})
	}
}

func newDirect(t testing.TB, p *Program, files splitmem.Files, seed uint64, threads int) *local.Direct {
	t.Helper()
	d, err := local.NewDirect(p, seed, files.Open, threads)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDirectBeginsAsAParameterServer(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 6, Holdout: 0.25, Seed: 1})
	p := program(t, apps.Params{"rank": 5}, dataset)
	d, trainer := newDirect(t, p, files, 9, 1), newTrainer(t, p, files, 9)
	for table, described := range p.Tables() {
		for row := range ps.RowID(described.Rows) {
			key := ps.Key{Table: ps.TableID(table), Row: row}
			if !slices.Equal(d.Row(key), trainer.Row(key)) {
				t.Fatalf("%v begins as %v, want %v", key, d.Row(key), trainer.Row(key))
			}
		}
	}
	stats, err := d.Step(true)
	if err != nil {
		t.Fatal(err)
	}
	other, err := trainer.Step(true)
	if err != nil || stats.TestCount != other.TestCount || relative(stats.TestLoss, other.TestLoss) > 1e-5 {
		t.Errorf("held-out examples: %d, loss %v; a parameter server's %d, %v", stats.TestCount, stats.TestLoss, other.TestCount, other.TestLoss)
	}
}

func relative(a, b float64) float64 { return max(a/b, b/a) - 1 }

// A pass takes every rating once, and the result does not depend on the threads.
func TestDirectDoesNotDependOnThreads(t *testing.T) {
	files, dataset := prepareFile(t, jester, apps.Cut{Splits: 3, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"rank": 20}, dataset)
	var want []float32
	for _, threads := range []int{1, 2, 4} {
		d := newDirect(t, p, files, 1, threads)
		var examples int64
		for range p.batches {
			stats, err := d.Step(false)
			if err != nil {
				t.Fatal(err)
			}
			examples += stats.Examples
		}
		if examples != dataset.Examples {
			t.Errorf("%d threads: %d ratings in a pass, want %d", threads, examples, dataset.Examples)
		}
		var all []float32
		for row := range ps.RowID(p.ratings.Users) {
			all = append(all, d.Row(ps.Key{Table: tableUsers, Row: row})...)
		}
		if want == nil {
			want = all
		} else if !slices.Equal(all, want) {
			t.Errorf("%d threads lead to other factors than one", threads)
		}
	}
}

func TestDirectDivergenceIsAnError(t *testing.T) {
	files, dataset := prepareFile(t, jester, apps.Cut{Splits: 1, Holdout: 0.2, Seed: 1})
	d := newDirect(t, program(t, apps.Params{"step": 1, "decay": 0, "l2": 0}, dataset), files, 1, 2)
	for range 40 {
		if _, err := d.Step(false); err != nil {
			if !strings.Contains(err.Error(), "lower step") {
				t.Errorf("error %q does not say what to do", err)
			}
			return
		}
	}
	t.Error("steps that are too long went unnoticed")
}

// Training in place is as good as training through a parameter server.
func TestDirectQuality(t *testing.T) {
	for _, c := range []struct {
		path   string
		params apps.Params
		seeds  uint64
		bar    float64
	}{{jester, apps.Params{"rank": 16, "l2": 0.06, "batches": 8}, 1, 4.06}, {movielens, nil, 5, 0.915}} {
		t.Run(fmt.Sprint(c.path[len(c.path)-12:]), func(t *testing.T) {
			var mean float64
			seeds := seedsOf(c.seeds)
			for seed := uint64(1); seed <= seeds; seed++ {
				files, dataset := prepareFile(t, c.path, apps.Cut{Splits: 4, Holdout: 0.2, Seed: seed})
				p := program(t, c.params, dataset)
				d := newDirect(t, p, files, seed, 2)
				for range 320 {
					if _, err := d.Step(false); err != nil {
						t.Fatal(err)
					}
				}
				stats, err := p.Evaluate(d, files.Open)
				if err != nil {
					t.Fatal(err)
				}
				mean += p.Score(stats.TestLoss, stats.TestCount) / float64(seeds)
			}
			t.Logf("test RMSE %.4f, mean of %d seeds", mean, seeds)
			if mean > c.bar {
				t.Errorf("test RMSE %.4f, want at most %v", mean, c.bar)
			}
		})
	}
}
