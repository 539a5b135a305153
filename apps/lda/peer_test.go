package lda

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/model"
)

// A topic model of plda (github.com/openbigdatagroup/plda), trained on documents whose words are named w1, w2, ... by
// their numbers, is measured beside ours by the same evaluator:
//
//	TIERML_PLDA_MODEL, TIERML_LDA_MODEL, TIERML_LDA_TEST (a docword file)
func TestPerplexityBesidePlda(t *testing.T) {
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
	a, n, err := ours.Perplexity(bag)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := theirs.Perplexity(bag)
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
	return NewTopicsFromCounts(counts, topics, alpha, beta)
}
