package lda

import (
	"math"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"pgregory.net/rapid"
)

// dense returns the plain sampler's weights for a token, whose topic is excluded from the counts.
func dense(document []int32, row, totals []int32, alpha, beta float64, words int) []float64 {
	weights := make([]float64, len(totals))
	for k := range weights {
		weights[k] = (float64(document[k]) + alpha) * (float64(row[k]) + beta) / (float64(totals[k]) + float64(words)*beta)
	}
	return weights
}

// state is consistent counts, with one word open in a sampler.
type state struct {
	document, row, totals []int32
}

func drawState(t *rapid.T) state {
	topics := rapid.SampledFrom([]int{2, 5, 33, 100}).Draw(t, "topics")
	s := state{make([]int32, topics), make([]int32, topics), make([]int32, topics)}
	sparse := rapid.IntRange(0, 4).Draw(t, "sparse")
	for k := range topics {
		s.document[k] = max(0, int32(rapid.IntRange(-2*sparse, 6).Draw(t, "document")))
		s.row[k] = max(0, int32(rapid.IntRange(-20*sparse, 40).Draw(t, "row")))
		s.totals[k] = s.row[k] + s.document[k] + int32(rapid.IntRange(0, 300).Draw(t, "others"))
	}
	return s
}

func (s state) sampler(alpha, beta float64, words int, seed uint64) (*sampler, *document) {
	draws := newSampler(alpha, beta, words, slices.Clone(s.totals), apps.NewStream(seed, 0, 1))
	draws.open(slices.Clone(s.row))
	d := &document{places: make([]uint16, len(s.totals)), norm: 1}
	for k, n := range s.document {
		for range n {
			d.add(int32(k))
		}
	}
	return draws, d
}

// Every topic is drawn as often as the plain sampler's weights say, and draws report those probabilities.
func TestDrawsAsTheDenseSampler(t *testing.T) {
	const alpha, beta, words, draws = 0.3, 0.05, 50, 4000
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		want := dense(s.document, s.row, s.totals, alpha, beta, words)
		mass := 0.0
		for _, w := range want {
			mass += w
		}
		sampler, d := s.sampler(alpha, beta, words, 1)
		got := make([]float64, len(want))
		for range draws {
			k, p := sampler.draw(d)
			if math.Abs(p-mass) > 1e-5*mass {
				t.Fatalf("the weights sum to %v, the sampler says %v", mass, p)
			}
			got[k]++
			d.remove(k)
			sampler.change(k, -1)
		}
		// Pearson's statistic; topics that are expected less than five times share a cell.
		statistic, cells, restGot, restWant := 0.0, 0, 0.0, 0.0
		for k, w := range want {
			expected := draws * w / mass
			if expected < 5 {
				restGot, restWant = restGot+got[k], restWant+expected
				continue
			}
			statistic += (got[k] - expected) * (got[k] - expected) / expected
			cells++
		}
		if restWant > 5 {
			statistic += (restGot - restWant) * (restGot - restWant) / restWant
			cells++
		}
		// Seven standard deviations of a chi-square: its mean is the degrees of freedom, its variance twice that.
		if limit := float64(cells) + 7*math.Sqrt(2*float64(cells)) + 10; statistic > limit {
			t.Fatalf("chi-square %.1f over %d cells: topics are not drawn by their weights\n%v\n%v", statistic, cells, got, want)
		}
	})
}

// The sums that the sampler keeps from token to token equal recomputed ones.
func TestKeptSumsAreTheCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		sampler, d := s.sampler(0.5, 0.01, 100, 1)
		for range 200 {
			k, _ := sampler.draw(d)
			s.document[k]++
			if rapid.Bool().Draw(t, "remove") {
				k = d.counts[rapid.IntRange(0, len(d.counts)-1).Draw(t, "place")].topic
				if sampler.topics[k].count > 0 {
					d.remove(k)
					sampler.change(k, -1)
					s.document[k]--
				}
			}
		}
		var smoothing, wordPart float64
		for k, n := range sampler.totals {
			inverse := 1 / (float64(n) + 100*0.01)
			smoothing += inverse
			wordPart += float64(sampler.topics[k].count) * inverse
			near(t, "weight", float64(sampler.topics[k].weight), (float64(sampler.topics[k].count)+0.01)*inverse)
			place := int(d.places[k]) - 1
			switch {
			case s.document[k] == 0 && place >= 0:
				t.Fatalf("topic %d is listed and not there", k)
			case s.document[k] > 0 && (d.counts[place].topic != int32(k) || d.counts[place].count != float32(s.document[k])):
				t.Fatalf("topic %d: %+v, want %d", k, d.counts[place], s.document[k])
			}
		}
		near(t, "smoothing", sampler.smoothing, smoothing)
		near(t, "word part", sampler.wordPart, wordPart)
		sampler.close()
		for k := range sampler.topics {
			near(t, "closed weight", float64(sampler.topics[k].weight), 0.01*float64(sampler.topics[k].inverse))
		}
	})
}

func near(t *rapid.T, what string, got, want float64) {
	if math.Abs(got-want) > 1e-5*math.Abs(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// A chain of two documents and three words is small enough to list every assignment. In the long run each is visited
// as often as the collapsed posterior says.
func TestStationaryDistribution(t *testing.T) {
	const topics, words, sweeps = 2, 3, 60000
	const alpha, beta = 0.7, 0.4
	texts := []text{{words: []uint32{0, 1}, counts: []uint32{2, 1}}, {words: []uint32{1, 2}, counts: []uint32{1, 1}}}
	b := newBatch(texts, []int{0, 1})
	wordOf := []int{0, 0, 1, 1, 2}
	tokens := len(b.documents)
	want, total := make([]float64, 1<<tokens), 0.0
	for z := range want {
		want[z] = posterior(b.documents, wordOf, z, alpha, beta, words)
		total += want[z]
	}
	rows, totals, slots := make([]int32, words*topics), make([]int32, topics), make([]int32, tokens)
	got := make([]float64, len(want))
	for i := range sweeps {
		stream := apps.NewStream(3, 0, ps.Clock(i))
		rowOf := func(place int) []int32 { return rows[place*topics : (place+1)*topics] }
		b.assign(&stream, totals, slots, rowOf)
		s := newSampler(alpha, beta, words, totals, stream)
		b.sweep(s, b.documentsOf(slots, topics, alpha), slots, rowOf)
		z := 0
		for t, slot := range slots {
			z |= int(slot-1) << t
		}
		got[z]++
	}
	for z := range want {
		p := want[z] / total
		// Successive sweeps are correlated: allow the error of a fifth as many.
		if d := math.Abs(got[z]/sweeps - p); d > 5*math.Sqrt(5*p/sweeps) {
			t.Errorf("assignment %05b: visited %.5f of the time, the posterior is %.5f", z, got[z]/sweeps, p)
		}
	}
}

// posterior is p(z | w) up to a factor: Griffiths and Steyvers 2004, equations 2 and 3, for two topics.
func posterior(documents []uint32, words []int, z int, alpha, beta float64, vocabulary int) float64 {
	inDocument, inTopic, totals := map[[2]int]float64{}, map[[2]int]float64{}, [2]float64{}
	p := 1.0
	for t, d := range documents { // by the chain rule: a token after another
		k := z >> t & 1
		p *= inDocument[[2]int{int(d), k}] + alpha
		p *= (inTopic[[2]int{words[t], k}] + beta) / (totals[k] + float64(vocabulary)*beta)
		inDocument[[2]int{int(d), k}]++
		inTopic[[2]int{words[t], k}]++
		totals[k]++
	}
	return p
}
