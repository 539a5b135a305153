package lda

import "github.com/tierml/tierml/apps"

// The topic of a token is drawn from its distribution given the topics of all other tokens (Griffiths and Steyvers, "Finding scientific
// topics", PNAS 101, 2004, equation 5): topic k of word w in document d has the weight
//
//	(n_dk + alpha) * (n_kw + beta) / (n_k + V*beta)
//
// where the counts leave the token itself out. A plain sampler sums K such weights for each token. Here the sum is taken apart as in
// SparseLDA (Yao, Mimno and McCallum, "Efficient methods for topic model inference on streaming document collections", KDD 2009, section
// 4), but the tokens are visited word by word, as in F+LDA (Yu, Hsieh, Yun, Vishwanathan and Dhillon, "A scalable asynchronous distributed
// algorithm for topic modeling", WWW 2015), so that what depends on the word alone is kept from one token to the next. With
//
//	q_k = (n_kw + beta) / (n_k + V*beta)
//
// the three parts are
//
//	document:  sum of n_dk * q_k              over the topics that the document has
//	word:      alpha * sum of n_kw / (n_k+V*beta)   over the topics that the word has
//	smoothing: alpha * beta * sum of 1 / (n_k+V*beta), kept from token to token
//
// It is the same distribution, so the chain has the same stationary distribution as the plain sampler's; slow_test.go compares the two. The
// cost of a token is the number of its document's topics, whatever K is.

// smoothingBlock is how many topics share one partial sum of the smoothing part: changing a topic changes one block, and a draw searches
// K/32 blocks and 32 topics.
const smoothingBlock = 32

// sampler is the working memory of one batch. Topics are numbers below len(totals).
type sampler struct {
	alpha, beta float64
	betaSum     float64 // V*beta
	beta32      float32

	totals []int32 // n_k
	topics []topicState

	smoothing float64   // sum of inverse
	blocks    []float64 // the same, by block

	row      []int32 // where the current word's counts go when it is closed; nil: they are a list
	wordPart float64 // sum of n_kw * inverse
	active   []int32 // topics that the word has, or had since it was opened

	stream apps.Stream
}

// topicState is a topic's state for the current word, kept together: a token's change needs all of it.
type topicState struct {
	inverse float32 // 1 / (n_k + V*beta)
	weight  float32 // q_k
	count   int32   // n_kw; 0 while no word is open
	listed  bool    // in active
}

// newSampler uses the topics' totals, which it changes as topics change.
func newSampler(alpha, beta float64, words int, totals []int32, stream apps.Stream) *sampler {
	topics := len(totals)
	s := &sampler{
		alpha: alpha, beta: beta, betaSum: float64(words) * beta, beta32: float32(beta),
		topics: make([]topicState, topics),
		blocks: make([]float64, (topics+smoothingBlock-1)/smoothingBlock),
		active: make([]int32, 0, topics),
	}
	s.begin(totals, stream)
	return s
}

// begin rereads the totals. No word is open.
func (s *sampler) begin(totals []int32, stream apps.Stream) {
	s.totals, s.stream, s.smoothing = totals, stream, 0
	clear(s.blocks)
	for k := range totals {
		inverse := s.inverseOf(totals[k])
		s.topics[k] = topicState{inverse: inverse, weight: s.beta32 * inverse}
		s.blocks[k/smoothingBlock] += float64(inverse)
		s.smoothing += float64(inverse)
	}
}

// inverseOf returns 1 / (n_k + V*beta). A total that was read while others changed it may be out of date.
func (s *sampler) inverseOf(total int32) float32 {
	return float32(1 / (float64(max(total, 0)) + s.betaSum))
}

// open takes over a word's row, which has the counts again once the word is closed.
func (s *sampler) open(row []int32) {
	s.row, s.wordPart = row, 0
	for k, n := range row {
		if n != 0 {
			s.activate(int32(k), n)
		}
	}
}

// activate adds a topic that the word has to those considered. A count that was read while others changed it may be negative; it has no
// weight.
func (s *sampler) activate(k, n int32) {
	t := &s.topics[k]
	part := float32(max(n, 0)) * t.inverse
	t.count, t.listed = n, true
	t.weight = part + float32(s.beta32*t.inverse)
	s.active = append(s.active, k)
	s.wordPart += float64(part)
}

// close forgets the word.
func (s *sampler) close() {
	for _, k := range s.active {
		t := &s.topics[k]
		if s.row != nil {
			s.row[k] = t.count
		}
		t.count, t.listed = 0, false
		t.weight = s.beta32 * t.inverse
	}
	s.active = s.active[:0]
}

// wordCount is the number of a word's tokens with a topic.
type wordCount struct{ topic, count int32 }

// openList is open for a word whose counts are a list of the nonzero ones.
func (s *sampler) openList(list []wordCount) {
	topics, beta, wordPart := s.topics, s.beta32, 0.0
	active := s.active[:len(list)]
	for i, n := range list {
		t := &topics[n.topic]
		part := float32(n.count) * t.inverse
		t.count, t.listed = n.count, true
		t.weight = part + float32(beta*t.inverse)
		active[i] = n.topic
		wordPart += float64(part)
	}
	s.row, s.active, s.wordPart = nil, active, wordPart
}

// closeList is close, and returns the word's list in the memory of the previous one. It fits, as a word has no more topics than tokens.
func (s *sampler) closeList(list []wordCount) []wordCount {
	list = list[:0]
	for _, k := range s.active {
		if n := s.topics[k].count; n > 0 {
			list = append(list, wordCount{k, n})
		}
	}
	s.close()
	return list
}

// change adds n, 1 or -1, to the counts of the current word and topic k.
func (s *sampler) change(k int32, n int32) {
	t := &s.topics[k]
	s.totals[k] += n
	before, after := t.inverse, s.inverseOf(s.totals[k])
	partBefore := float32(max(t.count, 0)) * before
	t.count += n
	part := float32(max(t.count, 0)) * after
	t.inverse = after
	t.weight = part + float32(s.beta32*after)
	s.wordPart += float64(part) - float64(partBefore)
	difference := float64(after) - float64(before)
	s.smoothing += difference
	s.blocks[k/smoothingBlock] += difference
	if !t.listed {
		t.listed = true
		s.active = append(s.active, k)
	}
}

// topicCount is the number of a document's tokens with a topic. The count is a float32 because it is multiplied by one; it is exact up to
// 2^24.
type topicCount struct {
	topic int32
	count float32
}

// document holds the topics of a document, roughly the most frequent first.
type document struct {
	counts []topicCount
	places []uint16 // by topic: its index in counts plus 1; 0: the document does not have it
	// norm is 1 / (tokens - 1 + K*alpha), which turns a sum of weights into a probability.
	norm float64
}

// remove removes one token of topic k. The topic must be present.
func (d *document) remove(k int32) {
	at := int(d.places[k]) - 1
	n := &d.counts[at]
	if n.count--; n.count > 0 {
		return
	}
	end := len(d.counts) - 1
	last := d.counts[end]
	*n = last
	d.places[last.topic] = uint16(at + 1)
	d.places[k] = 0
	d.counts = d.counts[:end]
}

// add adds one token of topic k.
func (d *document) add(k int32) {
	if place := d.places[k]; place > 0 {
		d.addAt(int(place) - 1)
		return
	}
	d.counts = append(d.counts, topicCount{k, 1})
	d.places[k] = uint16(len(d.counts))
}

// addAt adds to a topic by its index, and moves it one place towards the front if it exceeds the previous one.
func (d *document) addAt(at int) {
	n := &d.counts[at]
	n.count++
	if at == 0 {
		return
	}
	if before := &d.counts[at-1]; n.count > before.count {
		*n, *before = *before, *n
		d.places[n.topic] = uint16(at + 1)
		d.places[before.topic] = uint16(at)
	}
}

// sum returns the document part of the weights. Four parallel sums do not wait for each other; their order is fixed, and products are
// rounded before they are added, so that all machines get the same bits.
func (s *sampler) sum(counts []topicCount) float32 {
	var a, b, c, e float32
	topics := s.topics
	for len(counts) >= 4 {
		a += float32(counts[0].count * topics[counts[0].topic].weight)
		b += float32(counts[1].count * topics[counts[1].topic].weight)
		c += float32(counts[2].count * topics[counts[2].topic].weight)
		e += float32(counts[3].count * topics[counts[3].topic].weight)
		counts = counts[4:]
	}
	for _, n := range counts {
		a += float32(n.count * topics[n.topic].weight)
	}
	return (a + b) + (c + e)
}

// draw draws a topic for a token of the current word in a document, adds it to all counts, and returns the probability that the token had.
func (s *sampler) draw(d *document) (topic int32, probability float64) {
	inDocument := float64(s.sum(d.counts))
	inWord := s.alpha * s.wordPart
	mass := inDocument + inWord + float64(s.alpha*s.beta)*s.smoothing
	u := float64(s.stream.Uint64()>>11) / (1 << 53) * mass
	switch {
	case u < inDocument && len(d.counts) > 0:
		at := s.drawFromDocument(d.counts, float32(u))
		topic = d.counts[at].topic
		d.addAt(at)
	case u < inDocument+inWord && len(s.active) > 0:
		topic = s.drawFromWord((u - inDocument) / s.alpha)
		d.add(topic)
	default:
		topic = s.drawFromSmoothing((u - inDocument - inWord) / (s.alpha * s.beta))
		d.add(topic)
	}
	s.change(topic, 1)
	return topic, mass * d.norm
}

// drawFromDocument returns the place at which the running sum of weights passes u. Sums in a different order may differ in the last bits;
// the last place takes the remainder.
func (s *sampler) drawFromDocument(counts []topicCount, u float32) int {
	topics := s.topics
	for i, n := range counts {
		if u -= float32(n.count * topics[n.topic].weight); u < 0 {
			return i
		}
	}
	return len(counts) - 1
}

func (s *sampler) drawFromWord(u float64) int32 {
	last := s.active[0]
	for _, k := range s.active {
		t := &s.topics[k]
		if t.count <= 0 {
			continue
		}
		if u -= float64(float32(t.count) * t.inverse); u < 0 {
			return k
		}
		last = k
	}
	return last
}

func (s *sampler) drawFromSmoothing(u float64) int32 {
	block := 0
	for block < len(s.blocks)-1 && u >= s.blocks[block] {
		u -= s.blocks[block]
		block++
	}
	first := block * smoothingBlock
	inside := s.topics[first:min(first+smoothingBlock, len(s.topics))]
	for i := range inside {
		if u -= float64(inside[i].inverse); u < 0 {
			return int32(first + i)
		}
	}
	return int32(first + len(inside) - 1)
}
