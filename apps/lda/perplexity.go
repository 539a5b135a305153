package lda

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
)

// Held-out documents are measured by completion (Wallach, Murray, Salakhutdinov and Mimno, "Evaluation methods for topic models", ICML
// 2009, section 5.1): the mixture of topics is found from every second token of a document, in order of words, and the other tokens are
// predicted with it. The measure needs only the counts of a model, so models of any program can be compared by it.

// foldIns is how often a document's mixture is refined. Beyond 20 the perplexity changes in the fifth digit.
const foldIns = 20

// counts provides n_kw by word, and n_k.
type counts struct {
	of          func(word uint32) []int32
	totals      []int32
	words       int
	alpha, beta float64
}

// evaluate measures held-out documents with the rows of the tables.
func (p *Program) evaluate(documents []text, rows apps.Rows) (tokens int64, loss float64) {
	if len(documents) == 0 {
		return 0, 0
	}
	c := counts{
		of:     func(word uint32) []int32 { return apps.Counts(rows, wordKey(word)) },
		totals: apps.Counts(rows, totalsKey), words: p.corpus.Words, alpha: p.alpha, beta: p.beta,
	}
	return c.complete(documents)
}

// complete returns the number of predicted tokens and the sum of -log p(token).
func (c counts) complete(documents []text) (tokens int64, loss float64) {
	f := newCompleter(c)
	for _, d := range documents {
		n, l := f.complete(d)
		tokens += n
		loss += l
	}
	return tokens, loss
}

// completer is the working memory of complete.
type completer struct {
	counts
	inverse       []float64
	mixture, next []float64
	phi           []float64 // p(word | topic), with a row for each word of the document
}

func newCompleter(c counts) *completer {
	f := &completer{counts: c, inverse: make([]float64, len(c.totals)), mixture: make([]float64, len(c.totals)), next: make([]float64, len(c.totals))}
	for k, n := range c.totals {
		f.inverse[k] = 1 / (float64(max(n, 0)) + float64(float64(c.words)*c.beta))
	}
	return f
}

// lookUp sets phi for the words of a document.
func (f *completer) lookUp(words []uint32) {
	f.phi = f.phi[:0]
	for _, word := range words {
		for k, n := range f.of(word) {
			f.phi = append(f.phi, (float64(max(n, 0))+f.beta)*f.inverse[k])
		}
	}
}

func (f *completer) complete(d text) (tokens int64, loss float64) {
	topics := len(f.totals)
	f.lookUp(d.words)
	seen, asked := halves(d.counts)
	f.mix(seen)
	for i, n := range asked {
		if n == 0 {
			continue
		}
		p := 0.0
		for k, w := range f.phi[i*topics : (i+1)*topics] {
			p += float64(w * f.mixture[k])
		}
		tokens += n
		loss -= float64(float64(n) * math.Log(p))
	}
	return tokens, loss
}

// halves splits the tokens of a document alternately: one to observe, one to predict, and so on.
func halves(all []uint32) (seen, asked []int64) {
	seen, asked = make([]int64, len(all)), make([]int64, len(all))
	odd := int64(0)
	for i, n := range all {
		seen[i] = (int64(n) + 1 - odd) / 2
		asked[i] = int64(n) - seen[i]
		odd = (odd + int64(n)) % 2
	}
	return seen, asked
}

// mix finds the mixture of topics that fits the tokens seen, with the prior as alpha more tokens of every topic: each
// token is shared out over the topics in proportion to what the present mixture says, and the shares make the next
// one (Asuncion, Welling, Smyth and Teh, "On smoothing and inference for topic models", UAI 2009, CVB0).
func (f *completer) mix(seen []int64) {
	topics := len(f.mixture)
	for k := range f.mixture {
		f.mixture[k] = 1 / float64(topics)
	}
	for range foldIns {
		for k := range f.next {
			f.next[k] = f.alpha
		}
		total := float64(float64(topics) * f.alpha)
		for i, n := range seen {
			if n > 0 {
				f.share(f.phi[i*topics:(i+1)*topics], float64(n))
				total += float64(n)
			}
		}
		for k, x := range f.next {
			f.mixture[k] = x / total
		}
	}
}

func (f *completer) share(phi []float64, n float64) {
	mixture, next := f.mixture[:len(phi)], f.next[:len(phi)]
	sum := 0.0
	for k, w := range phi {
		sum += float64(w * mixture[k])
	}
	scale := n / sum
	for k, w := range phi {
		next[k] += float64(float64(w*mixture[k]) * scale)
	}
}

// Evaluate measures all held-out documents with finished tables.
func (p *Program) Evaluate(tables apps.Rows, open apps.Open) (apps.Stats, error) {
	var total apps.Stats
	err := p.eachSplit(open, func(data *splitData) {
		count, loss := p.evaluate(data.test, tables)
		total.TestCount += count
		total.TestLoss += loss
	})
	if err != nil {
		return apps.Stats{}, fmt.Errorf("evaluate: %w", err)
	}
	return total, nil
}
