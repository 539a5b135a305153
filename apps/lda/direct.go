package lda

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// In one process several threads change the counts in place. So that no two change the same count, documents and words are dealt into
// equally many groups; in a round every group of documents meets another group of words, and after one round per group all have met (as in
// F+Nomad LDA: Yu and others, WWW 2015, section 4). Only the topics' totals are shared: a meeting works on its own copy, and the changes
// are summed at the end of the round. The result does not depend on the number of threads.

// A word is set up once for each group of documents that it meets, so groups pay off only if a word has enough tokens in each: with 3
// tokens the set-up took a third of the time. More groups than maxGroups would need more cores than machines have.
const (
	tokensOfMeeting = 7
	minGroups       = 2
	maxGroups       = 16
)

// groupsFor returns the number of groups of documents and of words. It depends only on the data, so that the model does not depend on the
// machine.
func groupsFor(tokens, words int64, batches int) int {
	return int(min(max(tokens/(tokensOfMeeting*max(words, 1)*int64(batches)), minGroups), maxGroups))
}

// direct trains in one process. It is an apps.DirectTrainer.
type direct struct {
	program *Program
	seed    uint64
	totals  []int32
	words   [][]wordCount // by word: counts that are not zero
	batches []directBatch
	groups  int // of documents and of words
	test    []text
	threads []*directThread
}

// directBatch is one clock's work: the documents of one batch of every split.
type directBatch struct {
	documents [][]document // by group
	meets     [][]meeting  // by group of documents, then of words
}

// meeting is the tokens of a group of documents whose words are in one group.
type meeting struct {
	batch
	slots   []int32
	changes []int32 // of the totals in the current round
	loss    float64
}

type directThread struct {
	totals  []int32
	sampler *sampler
	row     []int32
}

// NewDirect reads all splits and draws first topics.
func (p *Program) NewDirect(open apps.Open, seed uint64, threads int) (apps.DirectTrainer, error) {
	d := &direct{program: p, seed: seed, totals: make([]int32, p.topics), words: make([][]wordCount, p.corpus.Words),
		batches: make([]directBatch, p.batches)}
	texts := make([][]text, p.batches)
	err := p.eachSplit(open, func(data *splitData) {
		d.test = append(d.test, data.test...)
		for i, members := range dealTexts(data.train, p.batches) {
			// In the clock for which batchAt returns i.
			at := (i + p.batches - int(uint64(data.id)%uint64(p.batches))) % p.batches
			for _, t := range members {
				texts[at] = append(texts[at], data.train[t])
			}
		}
	})
	if err != nil {
		return nil, err
	}
	groupOf := d.dealWords(texts)
	for i := range d.batches {
		d.batches[i].fill(p, texts[i], groupOf, d.groups)
	}
	d.start()
	for range min(max(threads, 1), d.groups) {
		t := &directThread{totals: make([]int32, p.topics), row: make([]int32, p.topics)}
		t.sampler = newSampler(p.alpha, p.beta, p.corpus.Words, t.totals, apps.Stream{})
		d.threads = append(d.threads, t)
	}
	return d, nil
}

// dealTexts distributes documents over groups with about equally many tokens.
func dealTexts(texts []text, groups int) [][]int {
	places := make([]int, len(texts))
	for i := range places {
		places[i] = i
	}
	return deal(places, groups, func(i int) int64 { return texts[i].tokens() })
}

// dealWords decides how many groups there are, allocates the words' counts and returns the group of each word, with about equally many
// tokens.
func (d *direct) dealWords(texts [][]text) (group []uint8) {
	tokens := make([]int64, len(d.words))
	for _, list := range texts {
		for _, t := range list {
			for i, word := range t.words {
				tokens[word] += int64(t.counts[i])
			}
		}
	}
	all, used, room := int64(0), int64(0), 0
	places := make([]int, len(tokens))
	for w, n := range tokens {
		places[w] = w
		room += min(int(n), d.program.topics)
		all += n
		used += min(n, 1)
	}
	d.groups = groupsFor(all, used, d.program.batches)
	memory := make([]wordCount, room)
	for w, n := range tokens {
		n := min(int(n), d.program.topics)
		d.words[w], memory = memory[:0:n], memory[n:]
	}
	group = make([]uint8, len(tokens))
	for g, members := range deal(places, d.groups, func(w int) int64 { return tokens[w] }) {
		for _, w := range members {
			group[w] = uint8(g)
		}
	}
	return group
}

// fill distributes the documents of a batch over groups and each group's tokens over meetings.
func (b *directBatch) fill(p *Program, texts []text, group []uint8, groups int) {
	b.documents, b.meets = make([][]document, groups), make([][]meeting, groups)
	for g, members := range dealTexts(texts, groups) {
		b.meets[g] = make([]meeting, groups)
		all := newBatch(texts, members)
		for _, w := range all.words {
			m := &b.meets[g][group[w.word]]
			from := len(m.batch.documents)
			m.batch.documents = append(m.batch.documents, all.documents[w.from:w.to]...)
			m.words = append(m.words, wordTokens{w.word, from, len(m.batch.documents)})
		}
		b.documents[g] = newDocuments(all.lengths, p.topics, p.alpha)
		for i := range b.meets[g] {
			m := &b.meets[g][i]
			m.slots = make([]int32, len(m.batch.documents))
			m.changes = make([]int32, p.topics)
		}
	}
}

// start draws an initial topic for every token, uniformly.
func (d *direct) start() {
	stream := apps.NewStream(d.seed, 0, 0)
	rows := make([]int32, d.program.topics)
	for i := range d.batches {
		b := &d.batches[i]
		for g := range b.meets {
			for j := range b.meets[g] {
				m := &b.meets[g][j]
				for _, w := range m.words {
					d.expand(w.word, rows)
					for t := w.from; t < w.to; t++ {
						k := int32(stream.Below(len(rows)))
						rows[k]++
						d.totals[k]++
						m.slots[t] = k + 1
						b.documents[g][m.batch.documents[t]].add(k)
					}
					list := d.words[w.word][:0]
					for k, n := range rows {
						if n > 0 {
							list = append(list, wordCount{int32(k), n})
						}
					}
					d.words[w.word] = list
				}
			}
		}
	}
}

// expand writes a word's counts into a row.
func (d *direct) expand(word uint32, row []int32) {
	clear(row)
	for _, n := range d.words[word] {
		row[n.topic] = n.count
	}
}

// Row returns a row of words, in memory of its own, or the totals. Rows do not contain the topics of tokens here.
func (d *direct) Row(k ps.Key) []float32 {
	switch k.Table {
	case tableWords:
		row := make([]int32, d.program.topics)
		d.expand(uint32(k.Row), row)
		return ps.Cells(row)
	case tableTotals:
		return ps.Cells(d.totals)
	}
	panic(fmt.Sprintf("lda: row %d of table %d is not kept while training in one process", k.Row, k.Table))
}

// Step draws a topic for every token of the clock's batch.
func (d *direct) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	var stats apps.Stats
	if evaluate {
		stats.TestCount, stats.TestLoss = d.evaluate()
	}
	b := &d.batches[uint64(c-1)%uint64(len(d.batches))]
	for round := range d.groups {
		d.each(d.groups, func(t *directThread, g int) {
			d.meet(t, b, g, (g+round)%d.groups, apps.NewStream(d.seed, ps.Split(g*d.groups+round), c))
		})
		for g := range d.groups {
			m := &b.meets[g][(g+round)%d.groups]
			for k, n := range m.changes {
				d.totals[k] += n
			}
			stats.Loss += m.loss
			stats.Examples += int64(len(m.slots))
		}
	}
	stats.Work = float64(stats.Examples) * d.program.workPerToken()
	return stats, nil
}

// meet draws a topic for every token of one meeting.
func (d *direct) meet(t *directThread, b *directBatch, documents, words int, stream apps.Stream) {
	m := &b.meets[documents][words]
	copy(t.totals, d.totals)
	s := t.sampler
	s.begin(t.totals, stream)
	var l losses
	for _, w := range m.words {
		s.openList(d.words[w.word])
		s.redraw(m.batch.documents[w.from:w.to], b.documents[documents], m.slots[w.from:w.to], &l)
		d.words[w.word] = s.closeList(d.words[w.word])
	}
	m.loss = l.sum()
	for k, n := range t.totals {
		m.changes[k] = n - d.totals[k]
	}
}

// evaluate measures the held-out documents, some at a time.
func (d *direct) evaluate() (tokens int64, loss float64) {
	const some = 64
	parts := slices.Collect(slices.Chunk(d.test, some))
	counted, lost := make([]int64, len(parts)), make([]float64, len(parts))
	p := d.program
	d.each(len(parts), func(t *directThread, i int) {
		c := counts{totals: d.totals, words: p.corpus.Words, alpha: p.alpha, beta: p.beta,
			of: func(word uint32) []int32 {
				d.expand(word, t.row)
				return t.row
			}}
		counted[i], lost[i] = c.complete(parts[i])
	})
	for i := range parts {
		tokens += counted[i]
		loss += lost[i]
	}
	return tokens, loss
}

// each distributes the numbers below n over the threads and waits for all.
func (d *direct) each(n int, do func(t *directThread, i int)) {
	if len(d.threads) == 1 {
		for i := range n {
			do(d.threads[0], i)
		}
		return
	}
	next := make(chan int)
	var wait sync.WaitGroup
	for _, t := range d.threads {
		wait.Go(func() {
			for i := range next {
				do(t, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}
