package lda

import (
	"math"
	"slices"

	"github.com/tierml/tierml/apps"
)

// batch is several documents of a split, as the sampler visits them: token by token in order of words, and of documents within a word.
type batch struct {
	words     []wordTokens
	documents []uint32 // of each token: an index into lengths
	lengths   []int32  // tokens of each document
}

// wordTokens is the range of one word's tokens in the batch: [from, to).
type wordTokens struct {
	word     uint32
	from, to int
}

// newBatch creates a batch from some of a split's documents.
func newBatch(all []text, members []int) batch {
	var b batch
	tokens := map[uint32]int{} // by word
	for _, d := range members {
		n := int32(0)
		for i, word := range all[d].words {
			tokens[word] += int(all[d].counts[i])
			n += int32(all[d].counts[i])
		}
		b.lengths = append(b.lengths, n)
	}
	for word := range tokens {
		b.words = append(b.words, wordTokens{word: word})
	}
	slices.SortFunc(b.words, func(x, y wordTokens) int { return int(int64(x.word) - int64(y.word)) })
	next := 0
	for i := range b.words {
		w := &b.words[i]
		w.from, w.to = next, next+tokens[w.word]
		next, tokens[w.word] = w.to, w.from
	}
	b.documents = make([]uint32, next)
	for place, d := range members {
		for i, word := range all[d].words {
			for range all[d].counts[i] {
				b.documents[tokens[word]] = uint32(place)
				tokens[word]++
			}
		}
	}
	return b
}

// newDocuments returns documents with room for that many tokens.
func newDocuments(lengths []int32, topics int, alpha float64) []document {
	documents := make([]document, len(lengths))
	room := 0
	for _, n := range lengths {
		room += min(int(n), topics)
	}
	memory := make([]topicCount, room)
	places := make([]uint16, len(documents)*topics)
	for d, n := range lengths {
		most := min(int(n), topics)
		documents[d] = document{
			counts: memory[:0:most],
			places: places[d*topics : (d+1)*topics],
			norm:   1 / (float64(n) - 1 + float64(float64(topics)*alpha)),
		}
		memory = memory[most:]
	}
	return documents
}

// documentsOf counts the topics of the documents from the tokens' topics.
func (b *batch) documentsOf(slots []int32, topics int, alpha float64) []document {
	documents := newDocuments(b.lengths, topics, alpha)
	for t, d := range b.documents {
		documents[d].add(slots[t] - 1)
	}
	return documents
}

// assign draws an initial topic, uniformly, for every token that has none.
func (b *batch) assign(stream *apps.Stream, totals, slots []int32, rowOf func(place int) []int32) {
	for place, w := range b.words {
		var row []int32
		for t := w.from; t < w.to; t++ {
			if slots[t] > 0 {
				continue
			}
			if row == nil {
				row = rowOf(place)
			}
			k := stream.Below(len(totals))
			row[k]++
			totals[k]++
			slots[t] = int32(k) + 1
		}
	}
}

// sweep draws a new topic for every token. Slots hold each token's topic plus 1; rowOf returns the counts of the word at an index into
// b.words. It returns the sum of -log p(token | all others).
func (b *batch) sweep(s *sampler, documents []document, slots []int32, rowOf func(place int) []int32) (loss float64) {
	var l losses
	for place, w := range b.words {
		s.open(rowOf(place))
		s.redraw(b.documents[w.from:w.to], documents, slots[w.from:w.to], &l)
		s.close()
	}
	return l.sum()
}

// redraw draws new topics for tokens of the current word, given the document and the slot of each.
func (s *sampler) redraw(tokens []uint32, documents []document, slots []int32, l *losses) {
	for t, at := range tokens {
		d := &documents[at]
		old := slots[t] - 1
		d.remove(old)
		s.change(old, -1)
		topic, probability := s.draw(d)
		slots[t] = topic + 1
		l.add(probability)
	}
}

// losses sums -log p. Logarithms are slow, so it takes one for the product of 16 probabilities, which stays far above the smallest float64.
type losses struct {
	product float64 // 0: nothing yet
	factors int
	total   float64
}

func (l *losses) add(probability float64) {
	if l.factors == 0 {
		l.product = 1
	}
	l.product *= probability
	if l.factors++; l.factors == 16 {
		l.total -= math.Log(l.product)
		l.factors = 0
	}
}

func (l *losses) sum() float64 {
	if l.factors == 0 {
		return l.total
	}
	return l.total - math.Log(l.product)
}
