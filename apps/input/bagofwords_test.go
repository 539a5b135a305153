package input

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const smallBag = "4\n6\n5\n1 2 3\n1 6 1\n3 1 2\n4 2 1\n4 3 9\n"

func TestReadBagOfWords(t *testing.T) {
	want := Bag{ID: []uint32{1, 3, 4}, Start: []int{0, 2, 3, 5}, Word: []uint32{1, 5, 0, 1, 2}, Count: []uint32{3, 1, 2, 1, 9}, Words: 6}
	for name, data := range map[string][]byte{
		"plain":     []byte(smallBag),
		"gzip":      gzipped(t, smallBag),
		"zstd":      zstandard(t, smallBag),
		"windows":   []byte("\ufeff" + strings.ReplaceAll(smallBag, "\n", "\r\n")),
		"any order": []byte("4\n6\n5\n4 3 9\n1 6 1\n4 2 1\n3 1 2\n1 2 3"),
	} {
		if got, err := readBag(t, data, 0, inMemory); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	got, err := readBag(t, []byte("4\n6\n8\nx\n1 2 3\n1 6 1\n3 1 2\n3 1 1\n4 2 1\n4 7 1\n4 3 9\n"), 3, inMemory)
	if want.BadLines = 3; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v: bad lines leave nothing behind", got, err, want)
	}
}

// TestBagOfWordsBeyondMemory reads a collection in memory, and the same one through files: in any order and with repeats.
func TestBagOfWordsBeyondMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	text := []byte("400\n90\n5000\n")
	for range 5000 {
		text = fmt.Appendf(text, "%d %d %d\n", 1+r.IntN(400), 1+r.IntN(90), 1+r.IntN(9))
	}
	want, err := readBag(t, text, 5000, inMemory)
	if err != nil || want.BadLines == 0 {
		t.Fatal(err, want.BadLines)
	}
	for _, limit := range []int64{0, 12, 15_000, 70_000} {
		if got, err := readBag(t, text, 5000, limit); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("limit %d: %v; other documents", limit, err)
		}
	}
	_, want0 := readBag(t, text, 0, inMemory)
	if _, err := readBag(t, text, 0, 0); err == nil || err.Error() != want0.Error() {
		t.Errorf("%v; want %v", err, want0)
	}
}

// readBag returns documents that stay valid after Close, and can be compared.
func readBag(t *testing.T, data []byte, maxBad int, limit int64) (Bag, error) {
	bag, err := readBagOfWords("f", bytes.NewReader(data), maxBad, limit)
	if err != nil {
		return bag, err
	}
	bag.Word, bag.Count = slices.Clone(bag.Word), slices.Clone(bag.Count)
	if err := bag.Close(); err != nil {
		t.Fatal(err)
	}
	bag.close = nil
	return bag, nil
}

func TestReadBagOfWordsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "f: it ends after line 0: want the UCI bag-of-words format",
		"1\n2\n":                     "f: it ends after line 2",
		"0\n0\n0\n":                  "f: no documents in it",
		"x\n2\n1\n1 1 1\n":           `f:1: number of documents "x" is not a whole number`,
		"1\n2\n99999999999\n1 1 1\n": `f:3: number of entries "99999999999"`,
		"1\n2\n1\n1 1\n":             "f:4: 2 numbers, want 3",
		"1\n2\n1\n1 1 1 1\n":         "f:4: more than 3 numbers",
		"1\n2\n1\n2 1 1\n":           `f:4: document "2" is not a whole number from 0 to 1`,
		"1\n2\n1\n1 1 0\n":           `f:4: count "0" is not`,
		"1\n2\n1\n1 1 4294967296\n":  `f:4: count "4294967296" is not`,
		"1\n2\n2\n1 1 1\n":           "f:4: 1 entries, the header says 2: the file may be cut short",
		"1\n2\n1\n1 1 1\n1 2 1\n":    "f:5: 2 entries, the header says 1",
		"1\n2\n2\n1 1 1\n1 1 1\n":    "f:5: document 1 had word 1 before, in line 4",
		"1\n2\n1\n1 1 1" + string(make([]byte, maxLine)): "f:4: longer than",
		"\x1f\x8b\x08\x00": "f: gzip: ",
	} {
		if _, err := ReadBagOfWords("f", strings.NewReader(text), 0); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

func TestReadVocabulary(t *testing.T) {
	for _, data := range [][]byte{[]byte("\ufeffa\r\nbc\r\nd e\r\n"), gzipped(t, "a\nbc\nd e"), zstandard(t, "a\nbc\nd e\n")} {
		if got, err := ReadVocabulary("f", bytes.NewReader(data)); err != nil || !slices.Equal(got, []string{"a", "bc", "d e"}) {
			t.Errorf("%q, %v", got, err)
		}
	}
	for text, want := range map[string]string{"": "f: it is empty", "a\n" + strings.Repeat("b", 2*maxLine): "f:2: longer than"} {
		if _, err := ReadVocabulary("f", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Whatever is read is in order and within the vocabulary, and is the same when written and read again.
func FuzzReadBagOfWords(f *testing.F) {
	f.Add([]byte(smallBag), 0)
	f.Add([]byte("2\n2\n3\n2 1 1\n1 1 1\n2 1 1\n"), 1)
	f.Add(gzipped(f, smallBag), 0)
	f.Fuzz(func(t *testing.T, data []byte, maxBad int) {
		bag, err := readBag(t, data, maxBad, inMemory)
		if err != nil {
			return
		}
		var again strings.Builder
		fmt.Fprintf(&again, "%d\n%d\n%d\n", bag.ID[len(bag.ID)-1], bag.Words, len(bag.Word))
		for d, id := range bag.ID {
			for e := bag.Start[d]; e < bag.Start[d+1]; e++ {
				fmt.Fprintf(&again, "%d %d %d\n", id, bag.Word[e]+1, bag.Count[e])
			}
		}
		bag.BadLines = 0
		back, err := readBag(t, []byte(again.String()), 0, inMemory)
		if err != nil || !reflect.DeepEqual(back, bag) {
			t.Fatalf("%v: read %+v, read back %+v", err, bag, back)
		}
	})
}

// TestReadBag: documents as text, as a column of a table, in LDA-C and counted from 0. The words of text are split as by scikit-learn's
// CountVectorizer.
func TestReadBag(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		options BagOptions
		words   string // vocabulary
		ids     []uint32
		entries string // words and counts
	}{
		"lines":                 {"Sea law, vote vote!\n\na I\nLaw_1 sea\n", BagOptions{}, "law law_1 sea vote", []uint32{1, 4}, "[0 2 3 1 2] [1 1 2 1 1]"},
		"table":                 {"id,review,stars\n1,\"the film, the cast\",5\n2,a bad bad film,1\n", BagOptions{}, "bad cast film the", []uint32{1, 2}, "[1 2 3 0 2] [1 1 2 2 1]"},
		"other":                 {"id;what\n1;one two three\n2;two two one\n", BagOptions{}, "one three two", []uint32{1, 2}, "[0 1 2 0 2] [1 1 1 1 2]"},
		"LDA-C":                 {"2 0:1 3:2\n1 1:4\n", BagOptions{}, "", []uint32{1, 2}, "[0 3 1] [1 2 4]"},
		"LDA-C, empty":          {"2 0:1 3:2\n0\n1 1:4\n", BagOptions{}, "", []uint32{1, 3}, "[0 3 1] [1 2 4]"},
		"comment":               {"id,review,stars\n1,\"the film, the cast\",5\n# two\n2,a bad bad film,1\n", BagOptions{}, "bad cast film the", []uint32{1, 2}, "[1 2 3 0 2] [1 1 2 2 1]"},
		"zero":                  {"2\n3\n3\n0 1 5\n1 2 1\n1 3 1\n", BagOptions{}, "", []uint32{0, 1}, "[0 1 2] [5 1 1]"},
		"umlauts":               {"Grüße aus KÖLN, grüße!\nDer Fluß über 30 Brücken\nÉtude in naïve style\n", BagOptions{}, "30 aus brücken der fluß grüße in köln naïve style étude über", []uint32{1, 2, 3}, "[1 5 7 0 2 3 4 11 6 8 9 10] [1 2 1 1 1 1 1 1 1 1 1 1]"},
		"apostrophes":           {"it's a dog's life, isn't it\nwell-known co-operation and so on\nx_1 __init__ 3d 42\n", BagOptions{}, "3d 42 __init__ and co dog isn it known life on operation so well x_1", []uint32{1, 2, 3}, "[5 6 7 9 3 4 8 10 11 12 13 0 1 2 14] [1 1 2 1 1 1 1 1 1 1 1 1 1 1 1]"},
		"tab with header":       {"label\ttext\nham\tgo until jurong point\nspam\tfree entry in a comp\nham\tok then i will go\n", BagOptions{}, "comp entry free go in jurong ok point then until will", []uint32{1, 2, 3}, "[3 5 7 9 0 1 2 4 3 6 8 10] [1 1 1 1 1 1 1 1 1 1 1 1]"},
		"SMS without header":    {"ham\tgo until jurong point\nspam\tfree entry in a comp\nham\tok then i will go\n", BagOptions{}, "comp entry free go in jurong ok point then until will", []uint32{1, 2, 3}, "[3 5 7 9 0 1 2 4 3 6 8 10] [1 1 1 1 1 1 1 1 1 1 1 1]"},
		"text of several lines": {"id,body\n1,\"first line of it\nsecond line, of it\"\n2,\"he said \"\"no\"\" again\"\n", BagOptions{}, "again first he it line no of said second", []uint32{1, 2}, "[1 3 4 6 8 0 2 5 7] [1 2 2 2 1 1 1 1 1]"},
		"bars":                  {"id|title|review\n1|a|the film was good good\n2|b|the film was bad\n", BagOptions{}, "bad film good the was", []uint32{1, 2}, "[1 2 3 4 0 1 3 4] [1 2 1 1 1 1 1 1]"},
		"Cyrillic":              {"привет мир\nмир миру мир\nмы пришли\n", BagOptions{}, "мир миру мы привет пришли", []uint32{1, 2, 3}, "[0 3 0 1 2 4] [1 1 2 1 1 1]"},
		"CRLF":                  {"one two three\r\ntwo three four\r\nthree four five\r\n", BagOptions{}, "five four one three two", []uint32{1, 2, 3}, "[2 3 4 1 3 4 0 1 3] [1 1 1 1 1 1 1 1 1]"},
		"a model":               {"zoo sea\nnothing\n", BagOptions{Vocabulary: []string{"law", "sea"}}, "law sea", []uint32{1}, "[1] [1]"},
	} {
		got, err := ReadBag("f", strings.NewReader(c.text), 0, c.options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if entries := fmt.Sprint(got.Word, got.Count); strings.Join(got.Vocabulary, " ") != c.words || !slices.Equal(got.ID, c.ids) || entries != c.entries {
			t.Errorf("%s: %q, documents %v, %s", name, got.Vocabulary, got.ID, entries)
		}
	}
	for text, want := range map[string]string{"2\n3\n2\n0 1 5\n2 1 1\n": "f:5: document 2 of 2, and there is a document 0", "\xff\xfa word\n": "f:1: not text", "x\n": "f: no documents",
		"2 0:1 3:2\n1 1:4 2:1\n": "f:2: want the number of different words", "1 3:1 4:1\n1 2:1 5:6\n": "f:1: want the number of different words",
		"%%MatrixMarket matrix array integer general\n2 3\n1\n": "f:1: of MatrixMarket's files"} {
		if _, err := ReadBag("f", strings.NewReader(text), 0, BagOptions{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Tables of counts and MatrixMarket's matrices are documents, each a row.
func TestCountsOfWords(t *testing.T) {
	for name, text := range map[string]string{
		"a table":        "court,law,vote\n1,0,2\n0,3,0\n",
		"with ids":       "doc,court,law,vote\na,1,0,2\nb,0,3,0\n",
		"without a name": ",court,law,vote\n0,1,0,2\n1,0,3,0\n",
		"semicolons":     "court;law;vote\n1;;2\n;3;\n",
		"a row a word":   "document,term,n\na,vote,2\nb,law,1\na,court,1\nb,law,2\n",
		"other columns":  "year\tdoc_id\tword\tcount\ttf_idf\n1999\t7\tcourt\t1\t.3\n1999\t7\tvote\t2\t.1\n2001\t3\tlaw\t3\t.2\n2001\t3\tvote\t0\t0\n",
		"MatrixMarket":   "%%MatrixMarket matrix coordinate integer general\n% made\n2 3 3\n1 1 1\n1 3 2\n2 2 3\n",
	} {
		bag, err := ReadBag("f", strings.NewReader(text), 0, BagOptions{})
		if err != nil || fmt.Sprint(bag.Start, bag.Word, bag.Count, bag.Words) != "[0 2 3] [0 2 1] [1 2 3] 3" || name != "MatrixMarket" && fmt.Sprint(bag.Vocabulary) != "[court law vote]" {
			t.Errorf("%s: %+v, %v", name, bag, err)
		}
	}
	bag, err := ReadBag("f", strings.NewReader("court,law,vote\n1,0,2\n0,3,0\n"), 0, BagOptions{Vocabulary: []string{"law", "vote"}})
	if err != nil || fmt.Sprint(bag.Word, bag.Count, bag.Words) != "[1 0] [2 3] 2" {
		t.Errorf("with a vocabulary: %+v, %v", bag, err)
	}
	if _, err := ReadBag("f", strings.NewReader("doc,word,count\na,law,2\na,,1\na,vote,-1\n"), 1, BagOptions{}); err == nil || err.Error() != `f:4: column 3: "-1" is not a count, a whole number from 0 (more than the 1 bad lines that may be left out)` {
		t.Error(err)
	}
	if _, err := ReadBag("f", strings.NewReader("court,law\n0.5,0\n0,1.5\n"), 0, BagOptions{}); err == nil || !strings.HasPrefix(err.Error(), `f: "0.5" in the column "court" is no count`) && !strings.HasPrefix(err.Error(), `f: "1.5" in the column "law" is no count`) {
		t.Error(err)
	}
}
