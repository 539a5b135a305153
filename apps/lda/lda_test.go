package lda

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

const smallDocuments, smallWords = 60, 30

// small returns documents that use the first or the last half of the vocabulary, so there are two topics to find.
func small() string {
	var b strings.Builder
	entries := 0
	for d := range smallDocuments {
		for w := range smallWords {
			if w/(smallWords/2) == d%2 && (w+d)%3 > 0 {
				fmt.Fprintf(&b, "%d %d %d\n", d+1, w+1, 1+(d*w)%4)
				entries++
			}
		}
	}
	return fmt.Sprintf("%d\n%d\n%d\n%s", smallDocuments, smallWords, entries, b.String())
}

func vocabulary() string {
	var b strings.Builder
	for w := range smallWords {
		fmt.Fprintf(&b, "word%d\n", w+1)
	}
	return b.String()
}

// vocabularyOnly opens a vocabulary and no other file.
func vocabularyOnly(name string) (io.ReadCloser, error) {
	if name != "vocab.small.txt" {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(vocabulary())), nil
}

func prepare(t testing.TB, cut apps.Cut) (splitmem.Files, apps.Dataset) {
	t.Helper()
	files := splitmem.Files{}
	in := apps.Input{Name: "some/docword.small-train.txt.gz", Data: strings.NewReader(small()), Beside: vocabularyOnly}
	dataset, err := Kind{}.Prepare(in, cut, files.Create)
	if err != nil {
		t.Fatal(err)
	}
	return files, dataset
}

func program(t testing.TB, params apps.Params, dataset apps.Dataset) *Program {
	t.Helper()
	p, err := Kind{}.New(params, dataset)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Program)
}

func newTrainer(t testing.TB, p *Program, files splitmem.Files, seed uint64) *local.Trainer {
	t.Helper()
	trainer, err := local.New(p, ps.Schema{Splits: p.data.Splits, Seed: seed}, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	return trainer
}

func step(t testing.TB, trainer *local.Trainer, evaluate bool) apps.Stats {
	t.Helper()
	stats, err := trainer.Step(evaluate)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func TestPrepareKeepsEveryDocumentOnce(t *testing.T) {
	files, dataset := prepare(t, apps.Cut{Splits: 7, Holdout: 0.3, Seed: 1})
	bag, err := input.ReadBagOfWords("small", strings.NewReader(small()), 0)
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, nil, dataset)
	seen := map[uint32]bool{}
	var train, test, largest int64
	err = p.eachSplit(files.Open, func(s *splitData) {
		before := train
		for i, d := range slices.Concat(s.train, s.test) {
			at, _ := slices.BinarySearch(bag.ID, d.id)
			from, to := bag.Start[at], bag.Start[at+1]
			if seen[d.id] || !slices.Equal(d.words, bag.Word[from:to]) || !slices.Equal(d.counts, bag.Count[from:to]) {
				t.Errorf("document %d comes twice or differs", d.id)
			}
			seen[d.id] = true
			if i < len(s.train) {
				train += d.tokens()
			} else {
				test += d.tokens()
			}
		}
		largest = max(largest, train-before)
		if (s.id == 0) != (len(s.vocabulary) == smallWords) {
			t.Errorf("split %d has %d words of vocabulary", s.id, len(s.vocabulary))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != smallDocuments || train != dataset.Examples || test != dataset.Test || test == 0 || largest != p.corpus.LargestSplit {
		t.Errorf("%d documents, %d + %d tokens, largest %d; the dataset says %+v", len(seen), train, test, largest, dataset)
	}
	if even := train / 7; largest > even+even/4 {
		t.Errorf("the largest split has %d tokens of %d", largest, train)
	}
}

func TestPrepareErrors(t *testing.T) {
	for _, c := range []struct {
		in   apps.Input
		cut  apps.Cut
		want string
	}{
		{apps.Input{Name: "f", Data: strings.NewReader("x")}, apps.Cut{Splits: 1}, "f: no documents in it"},
		{apps.Input{Name: "f", Data: strings.NewReader(small())}, apps.Cut{Splits: 61}, "f: 60 documents to train on are fewer than the number of splits, 61"},
		{apps.Input{Name: "f", Data: strings.NewReader(small())}, apps.Cut{}, "0 splits"},
		{apps.Input{Name: "f", Data: strings.NewReader(small())}, apps.Cut{Splits: 1, Holdout: 1}, "held-out share 1"},
		{apps.Input{Name: "docword.f.txt", Data: strings.NewReader(small()), Beside: func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("one\ntwo\n")), nil
		}}, apps.Cut{Splits: 1}, "vocab.f.txt: 2 words, but docword.f.txt says 30"},
	} {
		if _, err := (Kind{}).Prepare(c.in, c.cut, splitmem.Files{}.Create); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// The counts are exact at every clock: each token is in the row of its word and in the totals once it has a topic.
func TestCountsSumToTokens(t *testing.T) {
	for _, batches := range []int{1, 3} {
		files, dataset := prepare(t, apps.Cut{Splits: 4, Holdout: 0.2, Seed: 1})
		p := program(t, apps.Params{"topics": 5, "batches": batches}, dataset)
		trainer := newTrainer(t, p, files, 1)
		var visited int64
		for c := range 3 * batches {
			if n := step(t, trainer, false).Examples; c < batches {
				visited += n
			}
			sumOf := func(table ps.TableID) (sum int64) {
				for row := range p.Tables()[table].Rows {
					for _, n := range apps.Counts(trainer, ps.Key{Table: table, Row: ps.RowID(row)}) {
						if n < 0 {
							t.Fatalf("a count of %d", n)
						}
						sum += int64(n)
					}
				}
				return sum
			}
			if words, totals := sumOf(tableWords), sumOf(tableTotals); words != visited || totals != visited {
				t.Fatalf("clock %d: counts sum to %d and %d, %d tokens have been visited", c+1, words, totals, visited)
			}
		}
		if visited != dataset.Examples {
			t.Errorf("a sweep visits %d tokens of %d", visited, dataset.Examples)
		}
		checkSlots(t, p, files, trainer)
	}
}

// checkSlots recomputes the counts from the tokens' topics.
func checkSlots(t *testing.T, p *Program, files splitmem.Files, rows apps.Rows) {
	t.Helper()
	words := make([]int32, p.corpus.Words*p.topics)
	for id := range ps.Split(p.data.Splits) {
		loaded, err := p.LoadSplit(id, files[id], 1)
		if err != nil {
			t.Fatal(err)
		}
		s := loaded.(*split)
		for i := range s.batches {
			slots := make([]int32, len(s.batches[i].documents))
			s.eachSlotRow(i, rows, func(row, mine []int32) { copy(mine, row) }, slots)
			for _, w := range s.batches[i].words {
				for _, slot := range slots[w.from:w.to] {
					words[int(w.word)*p.topics+int(slot)-1]++
				}
			}
		}
	}
	for w := range uint32(p.corpus.Words) {
		if got := apps.Counts(rows, wordKey(w)); !slices.Equal(got, words[int(w)*p.topics:int(w+1)*p.topics]) {
			t.Errorf("word %d: counts %v do not agree with the topics of its tokens", w, got)
		}
	}
}

func TestFindsTheTopics(t *testing.T) {
	files, dataset := prepare(t, apps.Cut{Splits: 3, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"topics": 2, "alpha_sum": 1, "top_words": 9}, dataset)
	trainer := newTrainer(t, p, files, 1)
	first := step(t, trainer, true)
	if got := p.Score(first.TestLoss, first.TestCount); math.Abs(got-smallWords) > 1e-6 {
		t.Errorf("perplexity %v of a model that knows nothing of %d words", got, smallWords)
	}
	for range 60 {
		step(t, trainer, false)
	}
	last := step(t, trainer, true)
	train, test := p.Score(last.Loss, last.Examples), p.Score(last.TestLoss, last.TestCount)
	if train > smallWords/2 || test > smallWords/2 {
		t.Errorf("perplexity %.2f in training, %.2f held out; each topic has %d words", train, test, smallWords/2)
	}
	m, err := p.Export(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := NewTopics(m)
	if err != nil {
		t.Fatal(err)
	}
	for k, top := range topics.top {
		half := func(word string) bool { return len(word) == len("word9") || word < "word16" }
		for _, word := range top {
			if len(top) != 9 || half(word) != half(top[0]) {
				t.Errorf("topic %d mixes both halves: %v", k, top)
				break
			}
		}
	}
	name, content, err := p.Summary(m)
	if err != nil || name != "topics.txt" || strings.Count(string(content), "\n") != 2 || !strings.Contains(string(content), "word") {
		t.Errorf("summary %s, %v: %s", name, err, content)
	}
}

func TestRunIsPure(t *testing.T) {
	files, dataset := prepare(t, apps.Cut{Splits: 2, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"topics": 4, "batches": 2}, dataset)
	a, b := newTrainer(t, p, files, 1), newTrainer(t, p, files, 1)
	other := newTrainer(t, p, files, 2)
	b.SetThreads(2)
	for c := range 9 {
		first, second := step(t, a, c%2 == 0), step(t, b, c%2 == 0)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("clock %d: %+v and %+v", c+1, first, second)
		}
		step(t, other, false)
	}
	if !bytes.Equal(modelBytes(t, p, a, files), modelBytes(t, p, b, files)) {
		t.Error("the models differ")
	}
	if bytes.Equal(modelBytes(t, p, a, files), modelBytes(t, p, other, files)) {
		t.Error("the seed makes no difference")
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

// recorder returns rows of zeros and records the requests.
type recorder map[ps.Key][]float32

func (r recorder) Row(k ps.Key) []float32 {
	if r[k] == nil {
		r[k] = make([]float32, slotColumns)
	}
	return r[k]
}

func TestNeedsAreExact(t *testing.T) {
	files, dataset := prepare(t, apps.Cut{Splits: 3, Holdout: 0.3, Seed: 1})
	p := program(t, apps.Params{"topics": slotColumns, "batches": 4}, dataset)
	sorted := func(keys []ps.Key) []ps.Key {
		slices.SortFunc(keys, func(a, b ps.Key) int {
			return int(a.Table)<<20 + int(a.Row) - int(b.Table)<<20 - int(b.Row)
		})
		return keys
	}
	for id := range ps.Split(3) {
		s, err := p.LoadSplit(id, bytes.NewReader(files[id].Bytes()), 1)
		if err != nil {
			t.Fatal(err)
		}
		for c := range ps.Clock(5) {
			for _, evaluate := range []bool{false, true} {
				rows := recorder{}
				if _, err := s.Run(c+1, rows, evaluate); err != nil {
					t.Fatal(err)
				}
				var touched []ps.Key
				for k := range rows {
					touched = append(touched, k)
				}
				needs := s.Needs(c+1, nil)
				if evaluate {
					needs = slices.Compact(sorted(s.EvalNeeds(needs)))
				}
				if !slices.Equal(sorted(touched), sorted(needs)) {
					t.Errorf("split %d, clock %d: touches %v, needs %v", id, c+1, touched, needs)
				}
			}
		}
	}
}

func TestModelFileMeasuresAsTraining(t *testing.T) {
	files, dataset := prepare(t, apps.Cut{Splits: 2, Holdout: 0.3, Seed: 1})
	p := program(t, apps.Params{"topics": 3}, dataset)
	trainer := newTrainer(t, p, files, 1)
	for range 10 {
		step(t, trainer, false)
	}
	measured, err := p.Evaluate(trainer, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	if next := step(t, trainer, true); next.TestLoss == 0 || measured.TestCount != next.TestCount {
		t.Errorf("Evaluate measures %+v, the next clock %+v", measured, next)
	}
	trainer = newTrainer(t, p, files, 1)
	for range 10 {
		step(t, trainer, false)
	}
	m, err := p.Export(trainer, files.Open)
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err == nil {
		err = apps.Save(path, p, m)
	}
	if err == nil {
		m, err = model.Load(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	topics, err := NewTopics(m)
	if err != nil {
		t.Fatal(err)
	}
	var loss float64
	var n int64
	_ = p.eachSplit(files.Open, func(s *splitData) {
		count, l := topics.complete(s.test)
		n, loss = n+count, loss+l
	})
	if n != measured.TestCount || math.Abs(loss-measured.TestLoss) > 1e-9*loss {
		t.Errorf("from the file %v over %d, measured %+v", loss, n, measured)
	}
	if _, err := os.Stat(strings.TrimSuffix(path, "safetensors") + "topics.txt"); err != nil {
		t.Error(err)
	}
	if _, err := NewTopics(model.Model{Metadata: map[string]string{"app": "mf"}}); err == nil {
		t.Error("another model was taken for topics")
	}
}

func sampleSplit() *splitData {
	return &splitData{
		id: 3, words: 5, vocabulary: []string{"a", "b", "", "d", "e"},
		train: []text{{7, []uint32{0, 4}, []uint32{2, 1}}, {9, []uint32{3}, []uint32{1}}},
		test:  []text{{8, []uint32{1, 2}, []uint32{3, 3}}},
	}
}

func encode(t testing.TB, s *splitData) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSplitFile(t *testing.T) {
	for _, want := range []*splitData{sampleSplit(), {id: 3, words: 5}} {
		got, err := readSplit(bytes.NewReader(encode(t, want)), 3)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	whole := encode(t, sampleSplit())
	for n := range whole {
		if _, err := readSplit(bytes.NewReader(whole[:n]), 3); !errors.Is(err, ErrSplit) {
			t.Fatalf("%d of %d bytes: error %v, want ErrSplit", n, len(whole), err)
		}
	}
	for bit := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := readSplit(bytes.NewReader(damaged), 3); err == nil {
			t.Fatalf("bit %d flipped: not noticed", bit)
		}
	}
	if _, err := readSplit(bytes.NewReader(append(whole, 0)), 3); !errors.Is(err, ErrSplit) {
		t.Errorf("a byte too many: %v", err)
	}
}
