package lda

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

func newDirect(t *testing.T, p *Program, files splitmem.Files, seed uint64, threads int) *direct {
	t.Helper()
	trainer, err := p.NewDirect(files.Open, seed, threads)
	if err != nil {
		t.Fatal(err)
	}
	return trainer.(*direct)
}

// The counts agree with the tokens' topics after every clock, and the threads do not affect them.
func TestDirectCounts(t *testing.T) {
	for _, batches := range []int{1, 3} {
		files, dataset := prepare(t, apps.Cut{Splits: 4, Holdout: 0.2, Seed: 1})
		p := program(t, apps.Params{"topics": 40, "batches": batches}, dataset)
		one, three := newDirect(t, p, files, 1, 1), newDirect(t, p, files, 1, 3)
		var visited int64
		for c := range ps.Clock(3 * batches) {
			a, err := one.Step(c+1, c%2 == 0)
			if err != nil {
				t.Fatal(err)
			}
			b, err := three.Step(c+1, c%2 == 0)
			if err != nil {
				t.Fatal(err)
			}
			if a != b {
				t.Fatalf("clock %d: %+v with one thread, %+v with three", c+1, a, b)
			}
			visited += a.Examples
			checkDirect(t, one)
		}
		if visited != 3*dataset.Examples || !reflect.DeepEqual(one.words, three.words) || !slices.Equal(one.totals, three.totals) {
			t.Errorf("%d tokens of %d in three sweeps, or the counts depend on the threads", visited, 3*dataset.Examples)
		}
	}
}

// A word has enough tokens in each of its groups, within bounds.
func TestGroupsFollowTheData(t *testing.T) {
	for _, c := range []struct {
		tokens, words int64
		batches, want int
	}{{450_000, 20_000, 1, 3}, {450_000, 20_000, 2, 2}, {3_000_000, 60_000, 1, 7}, {100_000_000, 100_000, 1, 16}, {0, 0, 1, 2}} {
		if got := groupsFor(c.tokens, c.words, c.batches); got != c.want {
			t.Errorf("%+v: %d groups", c, got)
		}
	}
}

func checkDirect(t *testing.T, d *direct) {
	t.Helper()
	topics := d.program.topics
	words, totals := make([]int32, len(d.words)*topics), make([]int32, topics)
	tokens := int64(0)
	for i := range d.batches {
		for g := range d.groups {
			inDocuments := make([][]int32, len(d.batches[i].documents[g]))
			for at := range inDocuments {
				inDocuments[at] = make([]int32, topics)
			}
			for j := range d.groups {
				m := &d.batches[i].meets[g][j]
				for _, w := range m.words {
					for t := w.from; t < w.to; t++ {
						k := int(m.slots[t] - 1)
						words[int(w.word)*topics+k]++
						totals[k]++
						inDocuments[m.batch.documents[t]][k]++
						tokens++
					}
				}
			}
			for at, want := range inDocuments {
				got := make([]int32, topics)
				for _, n := range d.batches[i].documents[g][at].counts {
					got[n.topic] = int32(n.count)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("document %d of group %d: %v, its tokens say %v", at, g, got, want)
				}
			}
		}
	}
	if tokens != d.program.data.Examples || !slices.Equal(totals, d.totals) {
		t.Fatalf("%d tokens of %d; totals %v, the tokens say %v", tokens, d.program.data.Examples, d.totals, totals)
	}
	for w := range uint32(len(d.words)) {
		if got := apps.Counts(d, wordKey(w)); !slices.Equal(got, words[int(w)*topics:int(w+1)*topics]) {
			t.Fatalf("word %d: %v does not agree with the topics of its tokens", w, got)
		}
	}
}

// In place or as on machines, models are equally good. With some seeds the chain stays long in a state with words of both halves in each
// topic; these two are not among them.
func TestDirectIsAsGood(t *testing.T) {
	files, dataset := prepare(t, apps.Cut{Splits: 3, Holdout: 0.2, Seed: 1})
	p := program(t, apps.Params{"topics": 2, "alpha_sum": 1}, dataset)
	d, trainer := newDirect(t, p, files, 2, 2), newTrainer(t, p, files, 1)
	for c := range ps.Clock(60) {
		if _, err := d.Step(c+1, false); err != nil {
			t.Fatal(err)
		}
		step(t, trainer, false)
	}
	a, err := d.Step(61, true)
	if err != nil {
		t.Fatal(err)
	}
	b := step(t, trainer, true)
	direct, machines := p.Score(a.TestLoss, a.TestCount), p.Score(b.TestLoss, b.TestCount)
	if a.TestCount != b.TestCount || direct > 1.05*machines || machines > 1.05*direct {
		t.Errorf("perplexity %.3f of %d tokens in place, %.3f of %d as on machines", direct, a.TestCount, machines, b.TestCount)
	}
	if m, err := p.Export(d, files.Open); err != nil {
		t.Error(err)
	} else if _, err := NewTopics(m); err != nil {
		t.Error(err)
	}
}
