package ps

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var rules = map[string]Rule{
	"sgd":                {Name: SGD, Rate: 0.1},
	"momentum":           {Name: SGD, Rate: 0.1, Momentum: 0.9},
	"nesterov":           {Name: SGD, Rate: 0.1, Momentum: 0.9, Nesterov: true},
	"sgd, elastic net":   {Name: SGD, Rate: 0.1, L1: 0.05, L2: 0.1},
	"sgd, lasso":         {Name: SGD, Rate: 0.1, L1: 0.05},
	"sgd, ridge":         {Name: SGD, Rate: 0.1, L2: 0.1},
	"adagrad":            {Name: AdaGrad, Rate: 0.5, Epsilon: 1e-10},
	"adagrad, penalties": {Name: AdaGrad, Rate: 0.5, Epsilon: 1e-10, L1: 0.02, L2: 0.03},
	"adam":               {Name: Adam, Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
}

// slow is a rule implemented directly from its formula: one column, one clock after the other, gradient 0 where there is none.
type slow struct {
	Rule
	w, v, s, m float64
	t          int
}

func (x *slow) step(g float64, touched bool) {
	x.t++
	rate, momentum := float64(x.Rate), float64(x.Momentum)
	h := rate
	switch x.Name {
	case SGD:
		x.v = momentum*x.v + g
		if x.Nesterov {
			x.w -= rate * (g + momentum*x.v)
		} else {
			x.w -= rate * x.v
		}
	case AdaGrad:
		x.s += g * g
		if h = 0; x.s > 0 {
			h = rate / (math.Sqrt(x.s) + float64(x.Epsilon))
		}
		x.w -= h * g
	case Adam:
		if !touched {
			return
		}
		beta1, beta2 := float64(x.Beta1), float64(x.Beta2)
		x.m = beta1*x.m + (1-beta1)*g
		x.v = beta2*x.v + (1-beta2)*g*g
		m, v := x.m/(1-math.Pow(beta1, float64(x.t))), x.v/(1-math.Pow(beta2, float64(x.t)))
		x.w -= rate * m / (math.Sqrt(v) + float64(x.Epsilon))
		return
	}
	x.w = math.Copysign(max(math.Abs(x.w)-h*float64(x.L1), 0)/(1+h*float64(x.L2)), x.w)
}

// The servers' implementation, with all missed clocks at once, equals the formula.
func TestRulesAgainstTheirFormulas(t *testing.T) {
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				table := &Table{Rows: 1, Cols: 2, Rule: rule}
				cells := make([]float32, table.Width())
				want := [2]slow{{Rule: rule, w: 1}, {Rule: rule, w: -0.5}}
				cells[0], cells[1] = 1, -0.5
				seen := make([]float32, 2)
				for clock := range Clock(rapid.IntRange(1, 60).Draw(t, "clocks")) {
					touched := rapid.IntRange(0, 3).Draw(t, "touched") == 0
					var gradient [2]float32
					if touched {
						for i := range gradient { // no crumbs: AdaGrad blows them up
							gradient[i] = float32(rapid.IntRange(-100, 100).Draw(t, "gradient")) / 100
						}
						table.Step(cells, gradient[:], clock+1)
					}
					table.Seen(seen, cells, clock+1)
					for i := range want {
						want[i].step(float64(gradient[i]), touched)
						if off := math.Abs(float64(seen[i]) - want[i].w); off > 2e-5 {
							t.Fatalf("clock %d: column %d is %g, by the formula %g", clock+1, i, seen[i], want[i].w)
						}
					}
				}
			})
		})
	}
}

// Figures computed by hand.
func TestRulesByHand(t *testing.T) {
	for name, c := range map[string]struct {
		rule      Rule
		gradients []float32
		want      float32
	}{
		"sgd":       {Rule{Name: SGD, Rate: 0.5}, []float32{1, 1}, -1},
		"momentum":  {Rule{Name: SGD, Rate: 0.5, Momentum: 0.5}, []float32{1, 1, 0}, -0.5 * (1 + 1.5 + 0.75)},
		"nesterov":  {Rule{Name: SGD, Rate: 0.5, Momentum: 0.5, Nesterov: true}, []float32{1}, -0.5 * 1.5},
		"adagrad":   {Rule{Name: AdaGrad, Rate: 1}, []float32{3, 4}, -1 - 4.0/5},
		"adam":      {Rule{Name: Adam, Rate: 0.25, Beta1: 0.5, Beta2: 0.5}, []float32{-7}, 0.25}, // its first step is Rate
		"l1":        {Rule{Name: SGD, Rate: 0.5, L1: 0.5}, []float32{-4}, 2 - 0.25},
		"l1 to 0":   {Rule{Name: SGD, Rate: 0.5, L1: 8}, []float32{-4}, 0},
		"l2":        {Rule{Name: SGD, Rate: 0.5, L2: 2}, []float32{-4}, 1},
		"no change": {Rule{Name: Adam, Rate: 1, Beta1: 0.5, Beta2: 0.5}, []float32{0}, 0},
	} {
		table := &Table{Rows: 1, Cols: 1, Rule: c.rule}
		cells, got := make([]float32, table.Width()), make([]float32, 1)
		for i, g := range c.gradients {
			table.Step(cells, []float32{g}, Clock(i+1))
		}
		if table.Seen(got, cells, Clock(len(c.gradients))); math.Abs(float64(got[0]-c.want)) > 1e-6 {
			t.Errorf("%s: %g, want %g", name, got[0], c.want)
		}
	}
}

func TestRuleCheck(t *testing.T) {
	for name, rule := range rules {
		if err := rule.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	nan := float32(math.NaN())
	for name, rule := range map[string]Rule{
		"a name that is none":    {Name: "lion", Rate: 1},
		"a rate of nothing":      {Rate: 1},
		"no rate":                {Name: SGD},
		"not a number":           {Name: SGD, Rate: nan},
		"momentum without end":   {Name: SGD, Rate: 1, Momentum: 1},
		"momentum with lasso":    {Name: SGD, Rate: 1, Momentum: 0.9, L1: 1},
		"nesterov of nothing":    {Name: SGD, Rate: 1, Nesterov: true},
		"momentum of adagrad":    {Name: AdaGrad, Rate: 1, Momentum: 0.5},
		"adam's beta":            {Name: Adam, Rate: 1, Beta1: 1},
		"adam with lasso":        {Name: Adam, Rate: 1, L1: 1},
		"a reward for size":      {Name: SGD, Rate: 1, L2: -1},
		"an infinite rate":       {Name: SGD, Rate: float32(math.Inf(1))},
		"an unknown's parameter": {Name: "", L1: 1},
	} {
		if err := rule.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestSchemaCheck(t *testing.T) {
	good := func() *Schema { return smallSchema(true, 0) }
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *Schema){
		"no partition":                 func(s *Schema) { s.Partitions = 0 },
		"no split":                     func(s *Schema) { s.Splits = 0 },
		"stale and deterministic":      func(s *Schema) { s.Staleness = 1 },
		"a table of nothing":           func(s *Schema) { s.Tables[0].Rows = 0 },
		"a table of no columns":        func(s *Schema) { s.Tables[0].Cols = 0 },
		"more rows than a key can say": func(s *Schema) { s.Tables[0].Rows = 1<<48 + 1 },
		"a name twice":                 func(s *Schema) { s.Tables[0].Name = s.Tables[1].Name },
		"counts that begin somewhere":  func(s *Schema) { s.Tables[1].Kind = Int32 },
		"a rule for counts":            func(s *Schema) { s.Tables[0].Kind, s.Tables[0].Rule = Int32, rules["sgd"] },
		"a rule for sparse rows":       func(s *Schema) { s.Tables[0].Sparse, s.Tables[0].Rule = true, rules["sgd"] },
		"rows that fit no frame":       func(s *Schema) { s.Tables[1].Cols = 16 << 20 },
		"sums that fit no frame":       func(s *Schema) { s.Tables[0].Cols = 8 << 20 },
		"a kind that is none":          func(s *Schema) { s.Tables[0].Kind = 2 },
		"a rule that is none":          func(s *Schema) { s.Tables[0].Rule.Name = "x" },
	} {
		s := good()
		spoil(s)
		if err := s.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// Every row of a ranged table is in the partition with its range, and ranges are even.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Schema{Partitions: rapid.IntRange(1, 70).Draw(t, "partitions"), Tables: []Table{{
			Rows: rapid.OneOf(rapid.Uint64Range(1, 200), rapid.Uint64Range(1<<47, 1<<48)).Draw(t, "rows"), Ranged: true}}}
		next := RowID(0)
		for p := range Partition(s.Partitions) {
			first, end := s.rowRange(0, p)
			if first != next || end < first {
				t.Fatalf("partition %d begins at row %d, not %d", p, first, next)
			}
			if even := RowID(s.Tables[0].Rows / uint64(s.Partitions)); end-first != even && end-first != even+1 {
				t.Fatalf("partition %d has %d of %d rows", p, end-first, s.Tables[0].Rows)
			}
			if next = end; first == end {
				continue
			}
			for _, row := range []RowID{first, end - 1} {
				if got := s.PartitionOf(Key{Row: row}); got != p {
					t.Fatalf("row %d is in partition %d, not %d", row, got, p)
				}
			}
		}
		if next != RowID(s.Tables[0].Rows) {
			t.Fatalf("%d rows of %d", next, s.Tables[0].Rows)
		}
	})
}

// A sparse row comes back unchanged, takes at most a cell more than the whole row, and damaged ones are refused.
func TestSparseForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(rapid.SampledFrom([]float32{0, 0, 0, 0, 1, -2}), 1, 40).Draw(t, "row")
		cells := AppendSparse([]float32{9}, row)[1:]
		if len(cells) > 1+len(row) || sparseCells(cells, len(row)) != len(cells) {
			t.Fatalf("%d cells for a row of %d; %d are taken", len(cells), len(row), sparseCells(cells, len(row)))
		}
		back := make([]float32, len(row))
		if back[0] = 5; sparseCells(cells[:len(cells)-1], len(row)) >= len(cells) {
			t.Fatal("a row that is cut short was taken")
		}
		if expandSparse(back, cells); !sameBits(back, row) {
			t.Fatalf("%v came back as %v", row, back)
		}
		sum, twice := make([]int64, len(row)), make([]int64, len(row))
		for i, x := range row {
			sum[i] = int64(x)
		}
		words := appendSparseSum(nil, sum)
		if sparseWords(words, len(row)) != len(words) {
			t.Fatalf("%v has the form %v", sum, words)
		}
		for range 2 {
			if err := addSparseSum(twice, words); err != nil {
				t.Fatal(err)
			}
		}
		for i := range sum {
			if twice[i] != 2*sum[i] {
				t.Fatalf("%v twice is %v", sum, twice)
			}
		}
	})
	for name, ints := range map[string][]int32{
		"nothing": {}, "a negative number of columns": {-1}, "columns that descend": {2, 3, 1, 7, 7},
		"a column twice": {2, 1, 1, 7, 7}, "a column beyond the row": {1, 8, 7}, "a negative column": {1, -1, 7},
		"more columns than pay": {4, 0, 1, 2, 3, 7, 7, 7, 7}, "a whole row cut short": {8, 1, 2},
	} {
		words := make([]int64, len(ints))
		for i, n := range ints {
			words[i] = int64(n)
		}
		if sparseCells(Cells(ints), 8) >= 0 || sparseWords(words, 8) >= 0 {
			t.Errorf("%s was taken for a row", name)
		}
	}
}

// Replicas that miss a clock, or did part of it, count by what they did; a clock without contributions changes nothing. The figures are
// those of torch.optim.SGD(lr=.7, momentum=.9, nesterov=True) on the weighted mean.
func TestMeanDividesByTheWeightsThatCame(t *testing.T) {
	table := Table{Rows: 1, Cols: 3, Rule: Rule{Name: Mean, Rate: 0.7, Momentum: 0.9, Nesterov: true}}
	if err := table.Rule.Check(); err != nil {
		t.Fatal(err)
	}
	cells := make([]float32, table.Width())
	deliver := func(clock Clock, parts ...[3]float32) {
		sum := make([]float32, 3)
		for _, p := range parts { // two gradients, and the weight
			sum[0], sum[1], sum[2] = sum[0]+p[0]*p[2], sum[1]+p[1]*p[2], sum[2]+p[2]
		}
		table.Step(cells, sum, clock)
	}
	seen := make([]float32, 3)
	expect := func(a, b float64) {
		t.Helper()
		if table.Seen(seen, cells, 9); math.Abs(float64(seen[0])-a) > 1e-6 || math.Abs(float64(seen[1])-b) > 1e-6 || seen[2] != 0 {
			t.Errorf("%v, want %v and %v", seen, a, b)
		}
	}
	deliver(1, [3]float32{1, 2, 1}, [3]float32{3, 6, 1})
	expect(-0.7*1.9*2, -0.7*1.9*4)
	before := append([]float32(nil), cells[:6]...)
	deliver(2)
	deliver(3, [3]float32{})
	if after := cells[:6]; !slices.Equal(before, after) {
		t.Errorf("clocks without a delivery changed %v to %v", before, after)
	}
	deliver(4, [3]float32{1, 0, 1}, [3]float32{0, 2, 0.5}) // the mean is 2/3 and 2/3; the momentum was 2 and 4
	mean := 2.0 / 3
	expect(-0.7*(1.9*2+mean+0.9*(1.8+mean)), -0.7*(1.9*4+mean+0.9*(3.6+mean)))
}

// A view of a row of weighted means is what a reader gets: its columns, and nothing of incomplete clocks.
func TestViewOfMeans(t *testing.T) {
	s := &Schema{Tables: []Table{{Name: "t", Rows: 2, Cols: 3, Rule: Rule{Name: Mean, Rate: 1, Momentum: 0.5}}}, Partitions: 1, Splits: 2}
	shard, k := NewShard(s, 0), Key{}
	for sequence := range uint64(3) { // the last one's clock is not complete
		c := &Contribution{Incarnation: 1, Sequence: sequence + 1, Clock: Clock(sequence/2 + 1), Splits: []Split{Split(sequence % 2)},
			Updates: Sums{Keys: []Key{k}, Float: []float32{2, 4, 1}}}
		if _, err := shard.Stage(c); err != nil {
			t.Fatal(err)
		}
		if _, err := shard.Commit(1, c.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	read, view := make([]float32, 3), shard.View(k, false)
	shard.Read(k, read)
	if want := []float32{-2, -4, 0}; !slices.Equal(read, want) || !slices.Equal(view, want) || cap(view) != 3 {
		t.Errorf("read %v, seen %v of %d, want %v", read, view, cap(view), want)
	}
	if stored := shard.View(k, true); len(stored) != s.Tables[0].Width() {
		t.Errorf("stored %v", stored)
	}
}
