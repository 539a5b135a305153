// Package lda finds topics in a collection of documents: latent Dirichlet allocation (Blei, Ng and Jordan, JMLR 3,
// 2003), trained by collapsed Gibbs sampling. Every token (an occurrence of a word in a document) has a topic; a
// sweep draws each token's topic anew, given those of all others. A model is counts: how often each word has each
// topic.
//
// There are three tables, all of int32, so that counts are exact:
//
//   - words: n_kw, a row for each word;
//   - totals: n_k, one row;
//   - slots: the topic of each token plus 1 (0: none yet), in rows that belong to one split each. It is the state of
//     a split: written in the same contribution as the counts that go with it, it moves with the split, and a
//     roll-back takes both to the same cut. So the counts always sum to the number of tokens that have a topic.
//
// Within a clock a split sees the counts as they were and its own changes, not those of other splits (Newman,
// Asuncion, Smyth and Welling, "Distributed algorithms for topic models", JMLR 10, 2009: the model is as good as the
// sequential sampler's).
//
// The package is arithmetic and formats; it opens no file and knows no machine.
package lda

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// The tables.
const (
	tableWords  ps.TableID = 0
	tableTotals ps.TableID = 1
	tableSlots  ps.TableID = 2
)

// slotColumns is how many tokens share a row of the table of slots: enough that the overhead of a row is negligible, few enough that a
// split fills its last row.
const slotColumns = 1024

// Kind registers topic models.
type Kind struct{}

// Name is the application's name in job files.
func (Kind) Name() string { return "lda" }

// Params documents the hyper-parameters.
func (Kind) Params() []apps.Param {
	return []apps.Param{
		{Name: "topics", Default: 100, Min: 2, Max: 65535, Whole: true, Unit: "topics",
			Why: "how many topics to find; memory and traffic grow with it"},
		{Name: "alpha_sum", Default: 10, Min: 1e-3, Max: 1e6, Unit: "tokens",
			// On 20 Newsgroups 50, 10 and 5 give perplexities of 1688, 1598 and 1602; cut to 40 tokens a document 2356, 2332 and 2413.
			Why: "weight of the prior of a document's topics: alpha is alpha_sum / topics"},
		{Name: "beta", Default: 0.01, Min: 1e-6, Max: 100, Unit: "tokens per word",
			Why: "weight of the prior of a topic's words; smaller: topics of fewer words"},
		{Name: "batches", Default: 1, Min: 1, Max: 1 << 20, Whole: true, Unit: "clocks per sweep",
			Why: "groups of each split's documents, one for each clock"},
		{Name: "top_words", Default: 15, Min: 1, Max: 1000, Whole: true, Unit: "words per topic",
			Why: "words of each topic in the list of topics"},
	}
}

// New creates the application for a dataset made by Prepare.
func (Kind) New(params apps.Params, data apps.Dataset) (apps.Program, error) {
	values, err := params.Resolve(Kind{}.Params())
	if err != nil {
		return nil, fmt.Errorf("topic model: %w", err)
	}
	corpus, err := corpusOf(data)
	if err != nil {
		return nil, fmt.Errorf("topic model: %w", err)
	}
	return &Program{
		data:     data,
		corpus:   corpus,
		topics:   values.Int("topics"),
		alpha:    values.Float("alpha_sum") / values.Float("topics"),
		beta:     values.Float("beta"),
		batches:  values.Int("batches"),
		topWords: values.Int("top_words"),
	}, nil
}

// Program is a topic model of one collection with its hyper-parameters, which Kind.Params documents.
type Program struct {
	data   apps.Dataset
	corpus Corpus

	topics      int
	alpha, beta float64
	batches     int
	topWords    int
}

// Name is the application's name in job files.
func (*Program) Name() string { return Kind{}.Name() }

// Tables are words, totals and slots.
func (p *Program) Tables() []ps.Table {
	return []ps.Table{
		tableWords:  {Name: "words", Kind: ps.Int32, Rows: uint64(p.corpus.Words), Cols: p.topics},
		tableTotals: {Name: "totals", Kind: ps.Int32, Rows: 1, Cols: p.topics},
		tableSlots:  {Name: "slots", Kind: ps.Int32, Rows: uint64(p.data.Splits) * p.slotRows(), Cols: slotColumns},
	}
}

// LeastRows implements apps.Dense: a sweep reads all rows of a split, and each of its clocks the totals.
func (p *Program) LeastRows() []uint64 {
	return []uint64{
		tableWords: apps.PerClock(uint64(p.corpus.MostWords), p.batches), tableTotals: 1, tableSlots: apps.PerClock(p.slotRows(), p.batches),
	}
}

// slotRows returns the number of rows of slots per split.
func (p *Program) slotRows() uint64 {
	return (uint64(p.corpus.LargestSplit) + slotColumns - 1) / slotColumns
}

// Score returns the perplexity per token.
func (*Program) Score(loss float64, n int64) float64 { return math.Exp(loss / float64(n)) }

// ScoreName names the result of Score.
func (*Program) ScoreName() string { return "perplexity" }

// WorkPerClock returns the work of one clock over all splits, exact on average over the clocks of a sweep.
func (p *Program) WorkPerClock() float64 {
	return float64(p.data.Examples) * p.workPerToken() / float64(p.batches)
}

// workPerToken counts the operations of one draw: two for each topic that a document of mean length can have, and about fifty for updating
// counts. The real cost of a draw depends on the values.
func (p *Program) workPerToken() float64 {
	length := math.Ceil(float64(p.corpus.Tokens) / float64(p.corpus.Documents))
	return 50 + 2*min(float64(p.topics), length)
}
