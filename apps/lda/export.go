package lda

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
)

// Names in the model file. The probability of word w in topic k is
//
//	(word_topic[w, k] + beta) / (topic_totals[k] + words * beta)
//
// with beta in the metadata. The metadata's topics hold the first words of each topic as JSON: a list of lists.
const (
	tensorWords  = "word_topic"   // I32 [words, topics]
	tensorTotals = "topic_totals" // I32 [topics]
	metadataTop  = "topics"
	// metadataWords has the words of a model of text, as JSON.
	metadataWords = "vocabulary"
)

// Export creates the model file from finished tables. It omits the topics of individual tokens.
func (p *Program) Export(tables apps.Rows, open apps.Open) (model.Model, error) {
	vocabulary, err := p.vocabulary(open)
	if err != nil {
		return model.Model{}, fmt.Errorf("export: %w", err)
	}
	wordTopic := make([]int32, 0, p.corpus.Words*p.topics)
	for word := range uint32(p.corpus.Words) {
		wordTopic = append(wordTopic, apps.Counts(tables, wordKey(word))...)
	}
	totals := slices.Clone(apps.Counts(tables, totalsKey))
	top, err := json.Marshal(topWords(wordTopic, p.topics, p.topWords, vocabulary))
	if err != nil {
		return model.Model{}, fmt.Errorf("export: %w", err)
	}
	m := model.Model{
		Metadata: map[string]string{
			"app":       p.Name(),
			"alpha":     strconv.FormatFloat(p.alpha, 'g', -1, 64),
			"beta":      strconv.FormatFloat(p.beta, 'g', -1, 64),
			metadataTop: string(top),
		},
		Tensors: []model.Tensor{
			{Name: tensorWords, Shape: []int{p.corpus.Words, p.topics}, Int32: wordTopic},
			{Name: tensorTotals, Shape: []int{p.topics}, Int32: totals},
		},
	}
	if p.corpus.Text {
		words, err := json.Marshal(vocabulary)
		if err != nil {
			return model.Model{}, fmt.Errorf("export: %w", err)
		}
		m.Metadata[metadataWords] = string(words)
	}
	return m, nil
}

// vocabulary returns the words' names; for a collection without a vocabulary, their numbers in the input.
func (p *Program) vocabulary(open apps.Open) ([]string, error) {
	file, err := open(0)
	if err != nil {
		return nil, fmt.Errorf("open split 0: %w", err)
	}
	data, err := p.read(0, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if data.vocabulary != nil {
		return data.vocabulary, nil
	}
	numbers := make([]string, p.corpus.Words)
	for w := range numbers {
		numbers[w] = strconv.Itoa(w + 1)
	}
	return numbers, nil
}

// topWords lists the most frequent words of each topic, ties in the vocabulary's order.
func topWords(wordTopic []int32, topics, most int, vocabulary []string) [][]string {
	list := make([][]string, topics)
	for k := range list {
		var words []int
		for w := range vocabulary {
			if wordTopic[w*topics+k] > 0 {
				words = append(words, w)
			}
		}
		slices.SortStableFunc(words, func(a, b int) int {
			return cmp.Compare(wordTopic[b*topics+k], wordTopic[a*topics+k])
		})
		list[k] = []string{}
		for _, w := range words[:min(most, len(words))] {
			list[k] = append(list[k], vocabulary[w])
		}
	}
	return list
}

// Topics is a model read from a file.
type Topics struct {
	counts
	wordTopic []int32
	top       [][]string
	text      []string // the words, sorted; nil for a model of numbered words
}

// NewTopics returns the topics of a model that Export made.
func NewTopics(m model.Model) (*Topics, error) {
	if app := m.Metadata["app"]; app != (Kind{}).Name() {
		return nil, fmt.Errorf("the model was made by %q, not by a topic model", app)
	}
	var t Topics
	for name, to := range map[string]*float64{"alpha": &t.alpha, "beta": &t.beta} {
		x, err := strconv.ParseFloat(m.Metadata[name], 64)
		if err != nil || !(x > 0) {
			return nil, fmt.Errorf("the model's %s %q is not a number above 0", name, m.Metadata[name])
		}
		*to = x
	}
	words, _ := m.Tensor(tensorWords)
	totals, _ := m.Tensor(tensorTotals)
	if len(words.Shape) != 2 || words.Int32 == nil || len(totals.Int32) == 0 || words.Shape[1] != len(totals.Int32) {
		return nil, errors.New("the model's tensors do not fit a topic model")
	}
	if err := json.Unmarshal([]byte(m.Metadata[metadataTop]), &t.top); err != nil || len(t.top) != len(totals.Int32) {
		return nil, errors.New("the model's list of topics does not fit its tensors")
	}
	t.set(words.Int32, totals.Int32)
	if text, there := m.Metadata[metadataWords]; there {
		if err := json.Unmarshal([]byte(text), &t.text); err != nil || len(t.text) != t.words {
			return nil, errors.New("the model's vocabulary does not fit its tensors")
		}
	}
	return &t, nil
}

func (t *Topics) set(wordTopic, totals []int32) {
	topics := len(totals)
	t.wordTopic, t.totals, t.words = wordTopic, totals, len(wordTopic)/topics
	t.of = func(word uint32) []int32 { return wordTopic[int(word)*topics : (int(word)+1)*topics] }
}

// Summary lists the topics, the largest first, each with its share of all tokens and its first words.
func (*Program) Summary(m model.Model) (name string, content []byte, err error) {
	t, err := NewTopics(m)
	if err != nil {
		return "", nil, err
	}
	order := make([]int, len(t.totals))
	var all int64
	for k, n := range t.totals {
		order[k] = k
		all += int64(n)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.totals[b], t.totals[a]) })
	var b strings.Builder
	for _, k := range order {
		fmt.Fprintf(&b, "%5d %6.2f%%  %s\n", k, 100*float64(t.totals[k])/float64(max(all, 1)), strings.Join(t.top[k], " "))
	}
	return "topics.txt", []byte(b.String()), nil
}
