package lda

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/ps"
)

// Corpus describes the whole input after splitting: the Detail of the Dataset.
type Corpus struct {
	Words        int   `json:"words"`         // size of the vocabulary
	Documents    int   `json:"documents"`     // to train on
	Tokens       int64 `json:"tokens"`        // in them
	LargestSplit int64 `json:"largest_split"` // the maximum number of tokens to train on in a split
	// MostWords is the maximum number of distinct words to train on in a split; 0 in the data of former builds.
	MostWords int `json:"most_words,omitempty"`
	// Text means that the words come from a text file, so that a model must know them to predict.
	Text bool `json:"text,omitempty"`
}

func corpusOf(data apps.Dataset) (Corpus, error) {
	var c Corpus
	if err := json.Unmarshal(data.Detail, &c); err != nil {
		return c, fmt.Errorf("the dataset's details: %w", err)
	}
	if c.Words < 1 || c.Documents < 1 || c.Tokens < 1 || c.LargestSplit < 1 || c.LargestSplit > c.Tokens || data.Splits < 1 {
		return c, fmt.Errorf("impossible dataset: %d splits, %+v", data.Splits, c)
	}
	return c, nil
}

// maxTokens limits the tokens of a collection, so that counts fit in int32.
const maxTokens = 1<<31 - 1

// Former implements apps.Former.
func (Kind) Former(defaults int, given apps.Params) apps.Params {
	if defaults < 1 {
		given = given.With("alpha_sum", 50)
	}
	return given
}

// Prepare cuts a bag of words into splits. Documents are distributed so that splits have about equally many tokens. Which documents are
// held out depends only on the seed and the document's number. The vocabulary is looked for next to the file; without it words have numbers
// for names.
func (Kind) Prepare(in apps.Input, cut apps.Cut, create apps.Create) (data apps.Dataset, err error) {
	if err := cut.Check(); err != nil {
		return apps.Dataset{}, err
	}
	bag, err := input.ReadBag(in.Name, in.Data, in.MaxBadLines, input.BagOptions{Columns: in.Columns, Ignore: in.Ignore})
	if err != nil {
		return apps.Dataset{}, err
	}
	defer func() { err = errors.Join(err, bag.Close()) }()
	vocabulary := bag.Vocabulary
	if vocabulary == nil {
		if vocabulary, err = vocabularyBeside(in, &bag); err != nil {
			return apps.Dataset{}, err
		}
	}
	c := newCutter(bag, cut)
	if c.tokens > maxTokens {
		return apps.Dataset{}, fmt.Errorf("%s: %d tokens: counts hold at most %d", in.Name, c.tokens, maxTokens)
	}
	if c.cut.Splits, err = cut.Over(in.Name, len(c.train), "documents"); err != nil {
		return apps.Dataset{}, err
	}
	corpus, err := c.write(create, vocabulary)
	if err != nil {
		return apps.Dataset{}, err
	}
	corpus.Text = bag.Vocabulary != nil
	detail, err := json.Marshal(corpus)
	if err != nil {
		return apps.Dataset{}, fmt.Errorf("encode the dataset's details: %w", err)
	}
	return apps.Dataset{Splits: c.cut.Splits, Examples: c.tokens, Test: c.held, BadLines: bag.BadLines, Notes: bag.Notes, Detail: detail}, nil
}

// vocabularyBeside reads the vocabulary of docword.NAME.txt from vocab.NAME.txt in the same folder, either compressed or not. If NAME ends
// in a dash and a word, as in 20news-train, the name without it is tried as well.
func vocabularyBeside(in apps.Input, bag *input.Bag) ([]string, error) {
	if in.Beside == nil {
		return nil, nil
	}
	names := vocabularyNames(in.Name)
	if bag.Sparse {
		names = []string{"vocab.txt"} // the name in LDA-C's own data
	}
	for _, name := range names {
		file, err := in.Beside(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		vocabulary, err := input.ReadVocabulary(name, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		if bag.Sparse && len(vocabulary) > bag.Words {
			bag.Words = len(vocabulary)
		}
		if len(vocabulary) != bag.Words {
			return nil, fmt.Errorf("%s: %d words, but %s says %d", name, len(vocabulary), in.Name, bag.Words)
		}
		return vocabulary, nil
	}
	return nil, nil
}

func vocabularyNames(path string) []string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	name, found := strings.CutPrefix(name, "docword.")
	if !found {
		return nil
	}
	for _, suffix := range []string{".gz", ".zst", ".txt"} {
		name = strings.TrimSuffix(name, suffix)
	}
	stems := []string{name}
	if dash := strings.LastIndexByte(name, '-'); dash > 0 {
		stems = append(stems, name[:dash])
	}
	var names []string
	for _, stem := range stems {
		for _, suffix := range []string{"", ".gz", ".zst"} {
			names = append(names, "vocab."+stem+".txt"+suffix)
		}
	}
	return names
}

// cutter distributes documents.
type cutter struct {
	bag          input.Bag
	cut          apps.Cut
	train, test  []int // documents, by index in the bag
	tokens, held int64 // of these documents
}

func newCutter(bag input.Bag, cut apps.Cut) *cutter {
	c := &cutter{bag: bag, cut: cut}
	for d, id := range bag.ID {
		if heldOut(cut, id) {
			c.test = append(c.test, d)
			c.held += c.length(d)
		} else {
			c.train = append(c.train, d)
			c.tokens += c.length(d)
		}
	}
	return c
}

// purposeHoldout separates this use of the seed from all others.
const purposeHoldout = 0x6c6461686f6c64 // "ldahold"

func heldOut(cut apps.Cut, id uint32) bool {
	share := float64(ps.Hash(purposeHoldout, cut.Seed, uint64(id))>>11) / (1 << 53)
	return share < cut.Holdout
}

func (c *cutter) length(d int) (tokens int64) {
	for e := c.bag.Start[d]; e < c.bag.Start[d+1]; e++ {
		tokens += int64(c.bag.Count[e])
	}
	return tokens
}

// deal distributes things over bins of about equal size: the largest first, to the bins in turn, back and forth. Every bin lists its things
// in ascending order.
func deal(things []int, bins int, size func(int) int64) [][]int {
	order := slices.Clone(things)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	dealt := make([][]int, bins)
	for i, thing := range order {
		bin := i % bins
		if i/bins%2 == 1 {
			bin = bins - 1 - bin
		}
		dealt[bin] = append(dealt[bin], thing)
	}
	for _, bin := range dealt {
		slices.Sort(bin)
	}
	return dealt
}

func (c *cutter) write(create apps.Create, vocabulary []string) (Corpus, error) {
	corpus := Corpus{Words: c.bag.Words, Documents: len(c.train), Tokens: c.tokens}
	train := deal(c.train, c.cut.Splits, c.length)
	test := deal(c.test, c.cut.Splits, c.length)
	for id := range c.cut.Splits {
		s := &splitData{id: ps.Split(id), words: c.bag.Words, train: c.list(train[id]), test: c.list(test[id])}
		if id == 0 {
			s.vocabulary = vocabulary
		}
		var tokens int64
		for _, d := range s.train {
			tokens += d.tokens()
		}
		corpus.LargestSplit, corpus.MostWords = max(corpus.LargestSplit, tokens), max(corpus.MostWords, len(wordsOf(s.train)))
		if err := writeSplit(s, create); err != nil {
			return corpus, fmt.Errorf("write split %d: %w", id, err)
		}
	}
	return corpus, nil
}

func (c *cutter) list(documents []int) []text {
	list := make([]text, len(documents))
	for i, d := range documents {
		from, to := c.bag.Start[d], c.bag.Start[d+1]
		list[i] = text{id: c.bag.ID[d], words: c.bag.Word[from:to], counts: c.bag.Count[from:to]}
	}
	return list
}

func writeSplit(s *splitData, create apps.Create) error {
	w, err := create(s.id)
	if err != nil {
		return err
	}
	return errors.Join(s.write(w), w.Close())
}

// eachSplit reads the split files in order.
func (p *Program) eachSplit(open apps.Open, do func(*splitData)) error {
	for id := range ps.Split(p.data.Splits) {
		file, err := open(id)
		if err != nil {
			return fmt.Errorf("open split %d: %w", id, err)
		}
		data, err := p.read(id, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		do(data)
	}
	return nil
}

func (p *Program) read(id ps.Split, r io.Reader) (*splitData, error) {
	data, err := readSplit(r, id)
	if err != nil {
		return nil, err
	}
	if data.words != p.corpus.Words {
		return nil, fmt.Errorf("split %d: %d words and not %d: it belongs to other data", id, data.words, p.corpus.Words)
	}
	return data, nil
}
