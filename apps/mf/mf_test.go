package mf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

const (
	jester    = "../../examples/data/jester5k.csv.gz"
	movielens = "../../../shared/data/ml/mf/ml-100k.u.data.gz"
)

func prepare(t testing.TB, name string, data io.Reader, cut apps.Cut) (splitmem.Files, apps.Dataset) {
	t.Helper()
	files := splitmem.Files{}
	dataset, err := Kind{}.Prepare(apps.Input{Name: name, Data: data}, cut, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	return files, dataset
}

func prepareFile(t testing.TB, path string, cut apps.Cut) (splitmem.Files, apps.Dataset) {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && path == movielens {
		t.Skipf("%s is not there: MovieLens 100K may not be redistributed; get it from GroupLens, and put it there", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return prepare(t, path, file, cut)
}

func program(t testing.TB, params apps.Params, dataset apps.Dataset) *Program {
	t.Helper()
	p, err := Kind{}.New(params, dataset)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Program)
}

// small returns 40 users with 20 to 31 ratings of 50 items, in scattered ids.
func small() string {
	var b strings.Builder
	b.WriteString("user,item,rating\n")
	for u := range 40 {
		for i := range 20 + u%12 {
			fmt.Fprintf(&b, "%d,%d,%d\n", 1000-7*u, 3*((i*7+u)%50), 1+(u*i)%5)
		}
	}
	return b.String()
}

func TestPrepareKeepsEveryRatingOnce(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 6, Holdout: 0.25, Seed: 1})
	p := program(t, nil, dataset)
	lines := []string{}
	var train, test int64
	counts := make([]uint32, p.ratings.Items)
	listed := map[uint32]uint32{}
	err := p.eachSplit(files.Open, func(s *splitData) {
		train, test = train+int64(len(s.train)), test+int64(len(s.test))
		for _, e := range slices.Concat(s.train, s.test) {
			lines = append(lines, fmt.Sprintf("%d,%d,%v", s.users[e.user].id, s.items[e.item].id, e.value))
		}
		for _, e := range s.train {
			counts[s.items[e.item].row]++
		}
		for _, i := range s.items {
			listed[i.row] = i.count
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(small()), "\n")[1:]
	slices.Sort(want)
	slices.Sort(lines)
	if !slices.Equal(lines, want) {
		t.Error("the splits do not hold the ratings of the input")
	}
	if train != dataset.Examples || test != dataset.Test || train+test != int64(len(want)) {
		t.Errorf("%d + %d ratings, the dataset says %d + %d", train, test, dataset.Examples, dataset.Test)
	}
	for row, n := range counts {
		if listed[uint32(row)] != n {
			t.Errorf("item row %d has %d ratings to train on, the files say %d", row, n, listed[uint32(row)])
		}
	}
	if p.ratings.Users != 40 || p.ratings.Items != 50 {
		t.Errorf("%d users and %d items, want 40 and 50", p.ratings.Users, p.ratings.Items)
	}
}

func TestPrepareIsDeterministicAndSeeded(t *testing.T) {
	cut := apps.Cut{Splits: 4, Holdout: 0.25, Seed: 1}
	files, dataset := prepare(t, "small", strings.NewReader(small()), cut)
	again, datasetAgain := prepare(t, "small", strings.NewReader(small()), cut)
	if !reflect.DeepEqual(files, again) || !reflect.DeepEqual(dataset, datasetAgain) {
		t.Error("the same input is cut differently")
	}
	cut.Seed = 2
	other, _ := prepare(t, "small", strings.NewReader(small()), cut)
	if reflect.DeepEqual(files, other) {
		t.Error("the seed makes no difference")
	}
	cut = apps.Cut{Splits: 9, Holdout: 0.25, Seed: 1}
	_, more := prepare(t, "small", strings.NewReader(small()), cut)
	of := func(d apps.Dataset) Ratings {
		r, err := ratingsOf(d)
		if err != nil {
			t.Fatal(err)
		}
		r.MostUsers, r.MostItems = 0, 0 // these are per split
		return r
	}
	if of(more) != of(dataset) {
		t.Errorf("other splits hold out other ratings: %s, before %s", more.Detail, dataset.Detail)
	}
}

func TestSplitsAndBatchesAreEven(t *testing.T) {
	files, dataset := prepareFile(t, jester, apps.Cut{Splits: 64, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"batches": 8}, dataset)
	mean := float64(dataset.Examples) / 64 / 8
	for id := range ps.Split(64) {
		split := load(t, p, files, id)
		for b := range split.batches {
			if n := float64(len(split.batches[b].examples)); math.Abs(n-mean) > 0.15*mean {
				t.Errorf("split %d: batch %d has %v ratings, the mean is %v", id, b, n, mean)
			}
		}
	}
	if share := float64(dataset.Test) / float64(dataset.Test+dataset.Examples); math.Abs(share-0.2) > 0.004 {
		t.Errorf("a share of %v is held out, want 0.2", share)
	}
}

func load(t testing.TB, p *Program, files splitmem.Files, id ps.Split) *split {
	t.Helper()
	s, err := p.LoadSplit(id, bytes.NewReader(files[id].Bytes()), 1)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*split)
}

func TestPrepareRefuses(t *testing.T) {
	const one = "user,item,rating\n1,1,1\n2,1,1\n"
	for _, c := range []struct {
		data string
		cut  apps.Cut
		want string
	}{
		{one, apps.Cut{Splits: 0}, "0 splits: write 1 or more"},
		{one, apps.Cut{Splits: 1, Holdout: 1}, "held-out share 1"},
		{one, apps.Cut{Splits: 1, Holdout: math.NaN()}, "held-out share NaN"},
		{one, apps.Cut{Splits: 3}, "r.csv: 2 users to train on are fewer than the number of splits, 3: ask for at most 2"},
		{one, apps.Cut{Splits: 1, Holdout: 1 - 1e-16}, "r.csv: every rating is held out"},
		{"user,item,rating\n1,,1\n", apps.Cut{Splits: 1}, "r.csv:2: there is no item"},
	} {
		_, err := Kind{}.Prepare(apps.Input{Name: "r.csv", Data: strings.NewReader(c.data)}, c.cut, splitmem.Files{}.Create)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.cut, err, c.want)
		}
	}
}

func TestPrepareReportsWriteErrors(t *testing.T) {
	full := errors.New("disk full")
	_, err := Kind{}.Prepare(apps.Input{Name: "small", Data: strings.NewReader(small())}, apps.Cut{Splits: 2},
		func(ps.Split) (io.WriteCloser, error) { return brokenFile{full}, nil })
	if !errors.Is(err, full) || !strings.Contains(err.Error(), "write split 0") {
		t.Errorf("error %v, want the disk's", err)
	}
}

type brokenFile struct{ err error }

func (f brokenFile) Write([]byte) (int, error) { return 0, f.err }
func (f brokenFile) Close() error              { return nil }

func TestNewRefuses(t *testing.T) {
	_, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 1})
	if _, err := (Kind{}).New(apps.Params{"rnak": 3}, dataset); err == nil || !strings.Contains(err.Error(), `"rank"`) {
		t.Errorf("misspelt parameter: %v", err)
	}
	for _, detail := range []string{"", "{}", `{"users":1,"items":1,"scale":0}`, "oops"} {
		dataset.Detail = []byte(detail)
		if _, err := (Kind{}).New(nil, dataset); err == nil {
			t.Errorf("details %q were taken", detail)
		}
	}
}

func TestSplitOfOtherDataIsRefused(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 1})
	fewerUsers, fewerItems := program(t, nil, dataset), program(t, nil, dataset)
	fewerUsers.ratings.Users--
	fewerItems.ratings.Items--
	for _, p := range []*Program{fewerUsers, fewerItems} {
		if _, err := p.LoadSplit(0, bytes.NewReader(files[0].Bytes()), 1); err == nil {
			t.Errorf("a split of other data was loaded for %d users and %d items", p.ratings.Users, p.ratings.Items)
		}
	}
}

// plainRows returns rows from a map and remembers which were used.
type plainRows struct {
	rows map[ps.Key][]float32
	used map[ps.Key]bool
}

func (r plainRows) Row(k ps.Key) []float32 {
	r.used[k] = true
	return r.rows[k]
}

func given(p *Program, keys []ps.Key) plainRows {
	r := plainRows{map[ps.Key][]float32{}, map[ps.Key]bool{}}
	for _, k := range keys {
		row := make([]float32, p.rank+1)
		ps.InitRow(1, p.Tables()[k.Table], k.Table, k.Row, row)
		r.rows[k] = row
	}
	return r
}

// A batch is a function of the split and the clock: earlier work leaves no trace in it. So another machine can repeat it.
func TestRunIsPure(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 2, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"rank": 5, "batches": 3}, dataset)
	old, fresh := load(t, p, files, 1), load(t, p, files, 1)
	var before map[ps.Key][]float32
	for c := ps.Clock(1); c <= 7; c++ {
		evaluate := c%2 == 0
		keys := old.Needs(c, nil)
		if evaluate {
			keys = old.EvalNeeds(keys)
		}
		a, b := given(p, keys), given(p, keys)
		statsA, errA := old.Run(c, a, evaluate)
		if c == 7 || c == 4 { // fresh has seen nothing before clock 4, and nothing between
			statsB, errB := fresh.Run(c, b, evaluate)
			if errA != nil || errB != nil || statsA != statsB || !reflect.DeepEqual(a.rows, b.rows) {
				t.Fatalf("clock %d: %+v and %+v (%v, %v), or rows differ", c, statsA, statsB, errA, errB)
			}
		}
		if c == 1 {
			before = a.rows
		}
		if c == 4 && reflect.DeepEqual(a.rows, before) {
			t.Error("the batch comes in the same order in clocks 1 and 4")
		}
	}
}

func TestNeedsAreExact(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 2, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"batches": 3}, dataset)
	split := load(t, p, files, 0)
	seen := map[ps.Key]int{}
	var examples int64
	for c := ps.Clock(1); c <= 3; c++ {
		keys := split.Needs(c, []ps.Key{{Table: 7}})
		if keys[0] != (ps.Key{Table: 7}) {
			t.Fatal("Needs does not append")
		}
		rows := given(p, keys[1:])
		stats, err := split.Run(c, rows, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows.used) != len(keys)-1 {
			t.Errorf("clock %d: %d rows asked for, %d used", c, len(keys)-1, len(rows.used))
		}
		if want := float64(stats.Examples) * workPerExample(p.rank); stats.Work != want {
			t.Errorf("clock %d: work %v, want %v", c, stats.Work, want)
		}
		for _, k := range keys[1:] {
			seen[k]++
		}
		examples += stats.Examples
	}
	if int(examples) != len(split.data.train) {
		t.Errorf("a pass takes %d ratings of %d", examples, len(split.data.train))
	}
	for k, n := range seen {
		if k.Table == tableUsers && n > 1 {
			t.Errorf("user row %d is in %d batches of a pass, want 1", k.Row, n)
		}
	}
}

func TestWorkPerClockIsTheMean(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 3, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"batches": 5}, dataset)
	trainer := newTrainer(t, p, files, 3)
	var work float64
	for range 5 {
		stats, err := trainer.Step(false)
		if err != nil {
			t.Fatal(err)
		}
		work += stats.Work
	}
	if want := 5 * p.WorkPerClock(); math.Abs(work-want) > 1e-9*want {
		t.Errorf("a pass of 5 clocks is %v operations, want %v", work, want)
	}
}

// Two users per split and eight batches: most batches are empty, and yet every clock has its share.
func TestClocksAreEvenWithFewUsers(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 20, Seed: 1})
	trainer := newTrainer(t, program(t, apps.Params{"batches": 8}, dataset), files, 1)
	for c := range 8 {
		stats, err := trainer.Step(false)
		if err != nil {
			t.Fatal(err)
		}
		if mean := float64(dataset.Examples) / 8; math.Abs(float64(stats.Examples)-mean) > 0.3*mean {
			t.Errorf("clock %d takes %d ratings, the mean is %v", c+1, stats.Examples, mean)
		}
	}
}

func newTrainer(t testing.TB, app apps.App, files splitmem.Files, seed uint64) *local.Trainer {
	t.Helper()
	trainer, err := local.New(app, ps.Schema{Splits: len(files), Seed: seed}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return trainer
}

func TestStepSizes(t *testing.T) {
	p := &Program{step: 0.1, decay: 0.5, batches: 4, itemStepSum: 1}
	for c, want := range map[ps.Clock]float64{1: 0.1, 4: 0.1, 5: 0.1 / 1.5, 8: 0.1 / 1.5, 9: 0.05} {
		if got := p.stepAt(c); math.Abs(got-want) > 1e-15 {
			t.Errorf("step of clock %d is %v, want %v", c, got, want)
		}
	}
	for count, want := range map[uint32]float64{0: 0.1, 1: 0.1, 40: 0.1, 80: 0.05, 4000: 0.001} {
		if got := p.itemStep(0.1, count); math.Abs(got-want) > 1e-15 {
			t.Errorf("step of an item with %d ratings is %v, want %v", count, got, want)
		}
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 2})
	trainer := newTrainer(t, program(t, apps.Params{"step": 1, "item_step_sum": 1000, "init": 10}, dataset), files, 1)
	for range 400 {
		if _, err := trainer.Step(false); err != nil {
			if !strings.Contains(err.Error(), "diverged") {
				t.Errorf("error %v, want one that speaks of divergence", err)
			}
			return
		}
	}
	t.Error("a step of 1 did not diverge: this test tests nothing")
}

// shuffled gives the trainer the splits in another order.
type shuffled struct {
	*Program
	files splitmem.Files
	order []ps.Split
}

func (s shuffled) LoadSplit(id ps.Split, _ io.Reader, seed uint64) (apps.Split, error) {
	return s.Program.LoadSplit(s.order[id], bytes.NewReader(s.files[s.order[id]].Bytes()), seed)
}

// The deterministic mode's promise, in miniature: the order of work leaves no trace in the model.
func TestOrderOfSplitsDoesNotMatter(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 4, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"rank": 9}, dataset)
	a := newTrainer(t, p, files, 1)
	b := newTrainer(t, shuffled{p, files, []ps.Split{2, 0, 3, 1}}, files, 1)
	for c := range 40 {
		if _, err := a.Step(c%3 == 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Step(c%4 == 0); err != nil { // measuring leaves no trace either
			t.Fatal(err)
		}
	}
	if !bytes.Equal(modelBytes(t, p, a, files), modelBytes(t, p, b, files)) {
		t.Error("the models differ")
	}
}

func modelBytes(t testing.TB, p *Program, trainer *local.Trainer, files splitmem.Files) []byte {
	t.Helper()
	m, err := p.Export(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The model file is complete: predictions made from it have the test error measured in training.
func TestModelFilePredictsAsMeasured(t *testing.T) {
	files, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 4, Holdout: 0.3, Seed: 1})
	p := program(t, apps.Params{"rank": 9}, dataset)
	trainer := newTrainer(t, p, files, 1)
	for range 20 {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	measured, err := p.Evaluate(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	m, err := p.Export(trainer, files.Open)
	if err == nil {
		err = m.Save(path)
	}
	if err == nil {
		m, err = model.Load(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	predictor, err := NewPredictor(m)
	if err != nil {
		t.Fatal(err)
	}
	var squares float64
	var n int64
	if err := p.eachSplit(files.Open, func(s *splitData) {
		for _, e := range s.test {
			predicted, ok := predictor.Predict(s.users[e.user].id, s.items[e.item].id)
			if !ok {
				t.Fatal("the model does not know its own users")
			}
			squares += (predicted - float64(e.value)) * (predicted - float64(e.value))
			n++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n != measured.TestCount || math.Abs(squares-measured.TestLoss) > 1e-9*squares {
		t.Errorf("from the file %v over %d, measured %v over %d", squares, n, measured.TestLoss, measured.TestCount)
	}
	if stats, err := trainer.Step(true); err != nil || stats.TestLoss != measured.TestLoss {
		t.Errorf("the next clock measures %v (%v), Evaluate %v", stats.TestLoss, err, measured.TestLoss)
	}
	if _, ok := predictor.Predict(-1, 0); ok {
		t.Error("an unknown user has a prediction")
	}
}

// TestIdsAreTexts: a model trained on names predicts by names, on machines and in place, and the held-out set does not depend on other ids.
func TestIdsAreTexts(t *testing.T) {
	named := func(text string) string {
		lines := strings.Split(text, "\n")
		for i := 1; i < len(lines)-1; i++ {
			f := strings.Split(lines[i], ",")
			lines[i] = fmt.Sprintf("user %s,\"Film, part %s\",%s", f[0], f[1], f[2])
		}
		return strings.Join(lines, "\n")
	}
	data := named(small())
	files, dataset := prepare(t, "small", strings.NewReader(data), apps.Cut{Splits: 4, Holdout: 0.3, Seed: 1})
	p := program(t, apps.Params{"rank": 3}, dataset)
	trainer := newTrainer(t, p, files, 1)
	for range 20 {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	m, err := model.Read(bytes.NewReader(modelBytes(t, p, trainer, files)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Kind{}.Predict(m, apps.Input{Name: "new", Data: strings.NewReader(data + "nobody,\"Film, part 1\",3\n")})
	if err != nil {
		t.Fatal(err)
	}
	first, last := got.Row(0, nil), got.Row(got.Rows-1, nil)
	if !strings.HasPrefix(first[0], "user ") || !strings.HasPrefix(first[1], "Film, part ") || first[2] == "" || last[0] != "nobody" || last[2] != "" {
		t.Errorf("first %q, last %q", first, last)
	}
	_, more := prepare(t, "more", strings.NewReader(data+"a new user,\"Film, part 1\",3\n"), apps.Cut{Splits: 2, Holdout: 0.3, Seed: 1})
	if d := more.Test - dataset.Test; d != 0 && d != 1 {
		t.Errorf("%d ratings held out, and with one more rating %d", dataset.Test, more.Test)
	}
}

// TestWithoutRatings: each pair counts as 1, and an equal number of absent pairs as 0.
func TestWithoutRatings(t *testing.T) {
	_, dataset := prepare(t, "clicks", strings.NewReader("user,item\n1,1\n1,2\n2,1\n2,2\n2,3\n3,4\n"), apps.Cut{Splits: 1, Seed: 1})
	ratings, err := ratingsOf(dataset)
	if err != nil || dataset.Examples != 10 || ratings.Low != 0 || ratings.High != 1 || ratings.Mean != .6 || len(dataset.Notes) != 1 {
		t.Errorf("%+v of %+v, %v; user 2 lacks one item only", ratings, dataset, err)
	}
}

func TestPredictorRefuses(t *testing.T) {
	for _, metadata := range []map[string]string{
		nil,
		{"app": "lda"},
		{"app": "mf"},
		{"app": "mf", "rank": "2", "mean": "x"},
		{"app": "mf", "rank": "2", "mean": "1", "scale": "1", "low": "0", "high": "1"},
	} {
		if _, err := NewPredictor(model.Model{Metadata: metadata}); err == nil {
			t.Errorf("%v was taken for a model", metadata)
		}
	}
}

// Vectors of a high rank start with the length of those of rank 32; up to there the parameter applies directly.
func TestFirstValuesOfHighRanks(t *testing.T) {
	_, dataset := prepare(t, "small", strings.NewReader(small()), apps.Cut{Splits: 1, Seed: 1})
	for rank, want := range map[int]float64{8: 0.1, 32: 0.1, 128: 0.05, 3200: 0.01} {
		p := program(t, apps.Params{"rank": rank}, dataset)
		if got := p.Tables()[tableUsers].Init.High; math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("rank %d: first values up to %v, want %v", rank, got, want)
		}
	}
}
