package lda

import (
	"math"
	"slices"
)

// batch is some documents of a split, as the sampler visits them: token by token in order of words, and of documents
// within a word.
type batch struct {
	words     []wordTokens
	documents []uint32 // of each token: a place in lengths
	lengths   []int32  // tokens of each document
}

// wordTokens is the tokens of one word: [from, to) of the batch's.
type wordTokens struct {
	word     uint32
	from, to int
}

// newBatch makes a batch of some of a split's documents.
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

// documentsOf counts the topics of the documents from the tokens' topics. Slots with topic 0 have none yet.
func (b *batch) documentsOf(slots []int32, topics int, alpha float64) []document {
	documents := make([]document, len(b.lengths))
	room := 0
	for _, n := range b.lengths {
		room += min(int(n), topics)
	}
	memory := make([]topicCount, room)
	places := make([]uint16, len(documents)*topics)
	for d, n := range b.lengths {
		documents[d] = document{
			counts: memory[:0:min(int(n), topics)],
			places: places[d*topics : (d+1)*topics],
			norm:   1 / (float64(n) - 1 + float64(float64(topics)*alpha)),
		}
		memory = memory[min(int(n), topics):]
	}
	for t, d := range b.documents {
		if slots[t] > 0 {
			documents[d].add(slots[t] - 1)
		}
	}
	return documents
}

// sweep draws a new topic for every token. Slots hold each token's topic plus 1, or 0 before the token's first draw;
// rowOf gives the counts of the word at a place in b.words. It gives the sum of -log p(token | all others).
func (b *batch) sweep(s *sampler, slots []int32, rowOf func(place int) []int32) (loss float64) {
	documents := b.documentsOf(slots, len(s.totals), s.alpha)
	// Logarithms are slow: one for a product of several probabilities, which stays far above the least float64.
	product, factors := 1.0, 0
	for place, w := range b.words {
		s.open(rowOf(place))
		for t := w.from; t < w.to; t++ {
			d := &documents[b.documents[t]]
			if old := slots[t] - 1; old >= 0 {
				d.remove(old)
				s.change(old, -1)
			}
			topic, probability := s.draw(d)
			slots[t] = topic + 1
			if product *= probability; factors == 15 {
				loss -= math.Log(product)
				product, factors = 1, -1
			}
			factors++
		}
		s.close()
	}
	return loss - math.Log(product)
}
