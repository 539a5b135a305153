package lda

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/model"
)

// A topic model of plda (github.com/openbigdatagroup/plda), trained on documents whose words are named w1, w2, ... by
// their numbers, is compared with ours by the same evaluator:
//
//	TIERML_PLDA_MODEL, TIERML_LDA_MODEL, TIERML_LDA_TEST (a docword file)
func TestPerplexityAgainstPlda(t *testing.T) {
	paths := []string{os.Getenv("TIERML_PLDA_MODEL"), os.Getenv("TIERML_LDA_MODEL"), os.Getenv("TIERML_LDA_TEST")}
	for _, p := range paths {
		if p == "" {
			t.Skip("no model of plda is given: build plda, train it and this program on the same documents, and name the files by TIERML_PLDA_MODEL, TIERML_LDA_MODEL and TIERML_LDA_TEST")
		}
	}
	file, err := os.Open(paths[2])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bag, err := input.ReadBagOfWords(paths[2], file, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	ours, err := NewTopics(m)
	if err != nil {
		t.Fatal(err)
	}
	theirs := readPlda(t, paths[0], bag.Words, ours.alpha, ours.beta)
	a, n, err := perplexity(ours, bag)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := perplexity(theirs, bag)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("perplexity of %d tokens: ours %.2f, plda %.2f, ratio %.4f", n, a, b, a/b)
	if a > 1.02*b {
		t.Errorf("perplexity %.2f, that of plda is %.2f: more than 2 %% above", a, b)
	}
}

func readPlda(t *testing.T, path string, words int, alpha, beta float64) *Topics {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var counts []int32
	topics := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "\t")
		word, err := strconv.Atoi(strings.TrimPrefix(name, "w"))
		if err != nil || word < 1 || word > words {
			t.Fatalf("word %q", name)
		}
		fields := strings.Fields(rest)
		if counts == nil {
			topics = len(fields)
			counts = make([]int32, words*topics)
		}
		for k, field := range fields {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			counts[(word-1)*topics+k] = int32(n)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return topicsFromCounts(counts, topics, alpha, beta)
}

// topicsFromCounts makes a model from any program's counts: n_kw in rows of topics by word, and the priors.
func topicsFromCounts(wordTopic []int32, topics int, alpha, beta float64) *Topics {
	t := &Topics{counts: counts{alpha: alpha, beta: beta}}
	totals := make([]int32, topics)
	for i, n := range wordTopic {
		totals[i%topics] += n
	}
	t.set(wordTopic, totals)
	return t
}

// perplexity evaluates documents that the model was not trained on. Their words have the numbers of its vocabulary.
func perplexity(t *Topics, bag input.Bag) (perplexity float64, tokens int64, err error) {
	if bag.Words != t.words {
		return 0, 0, fmt.Errorf("documents of %d words, a model of %d", bag.Words, t.words)
	}
	documents := make([]text, len(bag.ID))
	for d := range documents {
		from, to := bag.Start[d], bag.Start[d+1]
		documents[d] = text{id: bag.ID[d], words: bag.Word[from:to], counts: bag.Count[from:to]}
	}
	tokens, loss := t.complete(documents)
	return (*Program)(nil).Score(loss, tokens), tokens, nil
}
