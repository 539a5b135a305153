package ps

import (
	"errors"
	"slices"
	"testing"
)

func TestStageRefuses(t *testing.T) {
	schema := smallSchema(true, 0)
	good := func() *Contribution { return contribution(schema, 0, 1, 1, 1, 0, 1) }
	for name, spoil := range map[string]func(c *Contribution){
		"a split that does not exist": func(c *Contribution) { c.Splits[1] = 4 },
		"a split twice":               func(c *Contribution) { c.Splits = []Split{0, 0} },
		"a clock too early":           func(c *Contribution) { c.Clock = 2 },
		"too few values":              func(c *Contribution) { c.Updates.Fixed = c.Updates.Fixed[1:] },
		"the other kind of values":    func(c *Contribution) { c.Updates.Fixed, c.Updates.Float = nil, make([]float32, len(c.Updates.Fixed)) },
		"an unknown table":            func(c *Contribution) { c.Updates.Keys[0].Table = 9 },
		"an unknown row":              func(c *Contribution) { c.Updates.Keys[0].Row = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewShard(schema, 0)
			c := good()
			spoil(c)
			if _, err := s.Stage(c); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v", err)
			}
			if _, err := s.Commit(1, 1); !errors.Is(err, ErrNotStaged) {
				t.Errorf("commit of what was refused: %v", err)
			}
		})
	}
}

// Two workers both believe that they have the same split: the second does not count.
func TestSplitCountsOnce(t *testing.T) {
	schema := smallSchema(true, 0)
	s := NewShard(schema, 0)
	a, b := contribution(schema, 0, 1, 1, 1, 0, 1), contribution(schema, 0, 2, 1, 1, 1, 2)
	for _, c := range []*Contribution{a, b} {
		if _, err := s.Stage(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(2, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("split 1 counts twice: %v", err)
	}
}

func TestFinishRefuses(t *testing.T) {
	schema := smallSchema(true, 0)
	for name, spoil := range map[string]func(f *Final){
		"marks of too few splits":  func(f *Final) { f.Marks = f.Marks[1:] },
		"a mark before the fold":   func(f *Final) { f.Marks[0] = -1 },
		"staged unknown split":     func(f *Final) { f.Staged[0].Splits = []Split{9} },
		"pending in the past":      func(f *Final) { f.Pending[0].Clock = 0 },
		"dirty rows not of here":   func(f *Final) { f.Dirty = []Key{{Table: 7}} },
		"rows without their width": func(f *Final) { f.Rows = Block{Keys: []Key{{}}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewShard(schema, 0)
			for inc, splits := range [][]Split{{0, 1}, {2, 3}} {
				if _, err := s.Stage(contribution(schema, 0, Incarnation(inc+1), 1, 1, splits...)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Commit(1, 1); err != nil {
				t.Fatal(err)
			}
			if err := s.BeginMove(); err != nil {
				t.Fatal(err)
			}
			f, err := s.FinalMove()
			if err != nil {
				t.Fatal(err)
			}
			f.Marks = slices.Clone(f.Marks)
			spoil(f)
			if _, err := NewIncoming(schema, 0).Finish(f); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEmptyBackupNeedsEverything(t *testing.T) {
	schema := smallSchema(true, 0)
	s, b := NewShard(schema, 0), NewEmptyBackup(schema, 0)
	if _, err := b.Promote(0); !errors.Is(err, ErrInvalid) {
		t.Errorf("promoted from nothing: %v", err)
	}
	for clock := Clock(1); clock <= 2; clock++ {
		if _, err := s.Stage(contribution(schema, 0, 1, uint64(clock), clock, 0, 1, 2, 3)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(1, uint64(clock)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.NameCut(2); err != nil {
		t.Fatal(err)
	}
	d, err := s.Deliver(2, false)
	if err != nil {
		t.Fatal(err)
	}
	if needFull, err := b.Deliver(&d); err != nil || !needFull {
		t.Fatalf("a piece without its base: %v, %v", needFull, err)
	}
	s.layers[0].full = true // as for a new backup
	if d, err = s.Deliver(2, false); err != nil || !d.Full {
		t.Fatal("a delivery to a new backup is not full")
	}
	if needFull, err := b.Deliver(&d); err != nil || needFull {
		t.Fatal(needFull, err)
	}
	if err := b.Commit(1); !errors.Is(err, ErrInvalid) {
		t.Errorf("committed what was not delivered: %v", err)
	}
	if err := b.Commit(2); err != nil {
		t.Fatal(err)
	}
	if cut, ok := b.Cut(); !ok || cut != 2 {
		t.Error(cut, ok)
	}
}

func TestPartitionsAreEven(t *testing.T) {
	s := &Schema{Partitions: 64, Tables: []Table{{Rows: 64000}, {Rows: 64000}}}
	count := make([]int, s.Partitions)
	for t := range s.Tables {
		for row := range s.Tables[t].Rows {
			count[s.PartitionOf(Key{TableID(t), RowID(row)})]++
		}
	}
	for p, n := range count {
		if n < 1700 || n > 2300 { // 2000 expected, standard deviation 44
			t.Errorf("partition %d has %d rows", p, n)
		}
	}
}
