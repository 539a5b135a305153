package lda

import (
	"fmt"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/model"
)

// Predict implements apps.Predictor: each document's mixture of topics, found as in perplexity.go, but from all of its words.
func (Kind) Predict(m model.Model, in apps.Input) (apps.Predictions, error) {
	t, err := NewTopics(m)
	if err != nil {
		return apps.Predictions{}, err
	}
	bag, err := input.ReadBag(in.Name, in.Data, in.MaxBadLines, input.BagOptions{Vocabulary: t.text, Columns: in.Columns})
	if err != nil {
		return apps.Predictions{}, err
	}
	if t.text != nil && bag.Vocabulary == nil {
		return apps.Predictions{}, fmt.Errorf("%s: its words are numbers, and the model was trained on text", in.Name)
	}
	if bag.Words != t.words && !(bag.Sparse && bag.Words < t.words) {
		return apps.Predictions{}, fmt.Errorf("%s: its vocabulary has %d words, the model's %d; number words by the vocabulary that the model was trained with",
			in.Name, bag.Words, t.words)
	}
	out := apps.Predictions{Columns: []string{"document"}, Rows: len(bag.ID), BadLines: bag.BadLines}
	for k := range t.totals {
		out.Columns = append(out.Columns, "topic_"+strconv.Itoa(k))
	}
	c := newCompleter(t.counts)
	// The bag stays open: rows are read until the process ends.
	out.Row = func(i int, cells []string) []string {
		from, to := bag.Start[i], bag.Start[i+1]
		cells = append(cells, strconv.FormatUint(uint64(bag.ID[i]), 10))
		for _, share := range c.mixtureOf(bag.Word[from:to], bag.Count[from:to]) {
			cells = append(cells, strconv.FormatFloat(share, 'g', 9, 64))
		}
		return cells
	}
	return out, nil
}

// mixtureOf returns the mixture of topics that fits a document; it is valid until the next call.
func (f *completer) mixtureOf(words, counts []uint32) []float64 {
	seen := make([]int64, len(counts))
	for i, n := range counts {
		seen[i] = int64(n)
	}
	f.lookUp(words)
	f.mix(seen)
	return f.mixture
}
