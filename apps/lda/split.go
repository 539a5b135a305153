package lda

import (
	"fmt"
	"io"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// LoadSplit reads a split file and divides its documents into batches.
func (p *Program) LoadSplit(id ps.Split, r io.Reader, seed uint64) (apps.Split, error) {
	data, err := p.read(id, r)
	if err != nil {
		return nil, err
	}
	return newSplit(p, data, seed)
}

// split is one split in memory. A batch is a group of whole documents.
type split struct {
	program *Program
	id      ps.Split
	seed    uint64
	batches []batch
	first   []int // of each batch: index of its first token, counting the split's tokens batch by batch
	test    []text
	words   []uint32 // of the held-out documents, ascending
}

func newSplit(p *Program, data *splitData, seed uint64) (*split, error) {
	s := &split{program: p, id: data.id, seed: seed, test: data.test}
	tokens := 0
	for _, members := range dealTexts(data.train, p.batches) {
		s.first = append(s.first, tokens)
		s.batches = append(s.batches, newBatch(data.train, members))
		tokens += len(s.batches[len(s.batches)-1].documents)
	}
	if int64(tokens) > p.corpus.LargestSplit {
		return nil, fmt.Errorf("split %d: %d tokens and not at most %d: it belongs to other data", data.id, tokens, p.corpus.LargestSplit)
	}
	s.words = wordsOf(data.test)
	return s, nil
}

// wordsOf lists the words of documents, ascending.
func wordsOf(documents []text) (words []uint32) {
	for _, d := range documents {
		words = append(words, d.words...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// batchAt returns the index of a clock's batch. Batches take turns, so a sweep has one clock per batch. Splits start at different
// batches, so that unequal batch sizes do not coincide in one clock.
func (s *split) batchAt(c ps.Clock) int {
	return int((uint64(c-1) + uint64(s.id)) % uint64(len(s.batches)))
}

func wordKey(word uint32) ps.Key { return ps.Key{Table: tableWords, Row: ps.RowID(word)} }

var totalsKey = ps.Key{Table: tableTotals}

func (s *split) slotKey(row int) ps.Key {
	return ps.Key{Table: tableSlots, Row: ps.RowID(uint64(s.id)*s.program.slotRows() + uint64(row))}
}

// Needs lists the rows of the batch's words, the totals, and the rows with the slots of its tokens.
func (s *split) Needs(c ps.Clock, keys []ps.Key) []ps.Key {
	i := s.batchAt(c)
	b := &s.batches[i]
	if len(b.documents) == 0 {
		return keys
	}
	for _, w := range b.words {
		keys = append(keys, wordKey(w.word))
	}
	keys = append(keys, totalsKey)
	for row := s.first[i] / slotColumns; row*slotColumns < s.first[i]+len(b.documents); row++ {
		keys = append(keys, s.slotKey(row))
	}
	return keys
}

// EvalNeeds lists the rows of the held-out documents' words, and the totals.
func (s *split) EvalNeeds(keys []ps.Key) []ps.Key {
	if len(s.test) == 0 {
		return keys
	}
	for _, w := range s.words {
		keys = append(keys, wordKey(w))
	}
	return append(keys, totalsKey)
}

// Run draws a topic for every token of the batch.
func (s *split) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	if c < 1 {
		return apps.Stats{}, fmt.Errorf("clock %d: the first one is 1", c)
	}
	var stats apps.Stats
	if evaluate {
		stats.TestCount, stats.TestLoss = s.program.evaluate(s.test, rows)
	}
	i := s.batchAt(c)
	b := &s.batches[i]
	if len(b.documents) == 0 {
		return stats, nil
	}
	slots := make([]int32, len(b.documents))
	s.eachSlotRow(i, rows, func(row, mine []int32) { copy(mine, row) }, slots)
	p := s.program
	for _, slot := range slots {
		if slot < 0 || int(slot) > p.topics {
			return stats, fmt.Errorf("split %d: a token has topic %d of %d: its state is damaged", s.id, slot-1, p.topics)
		}
	}
	totals := apps.Counts(rows, totalsKey)
	stream := apps.NewStream(s.seed, s.id, c)
	rowOf := func(place int) []int32 { return apps.Counts(rows, wordKey(b.words[place].word)) }
	b.assign(&stream, totals, slots, rowOf)
	sampler := newSampler(p.alpha, p.beta, p.corpus.Words, totals, stream)
	stats.Loss = b.sweep(sampler, b.documentsOf(slots, p.topics, p.alpha), slots, rowOf)
	s.eachSlotRow(i, rows, func(row, mine []int32) { copy(row, mine) }, slots)
	stats.Examples = int64(len(slots))
	stats.Work = float64(len(slots)) * p.workPerToken()
	return stats, nil
}

// eachSlotRow passes the parts of slots' rows that belong to a batch, each with the batch's own list.
func (s *split) eachSlotRow(i int, rows apps.Rows, do func(row, mine []int32), slots []int32) {
	for at := s.first[i]; len(slots) > 0; {
		row := apps.Counts(rows, s.slotKey(at/slotColumns))[at%slotColumns:]
		n := min(len(row), len(slots))
		do(row[:n], slots[:n])
		slots = slots[n:]
		at += n
	}
}
