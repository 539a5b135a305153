package labelled

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/ps"
)

// Prepare reads a LIBSVM file, an IDX file of images or a CSV table, recognised by its first bytes, and cuts it into
// splits. The labels of images are read from the file next to it whose name has labels for images and idx1 for
// idx3, as the MNIST files are named.
func Prepare(in apps.Input, cut apps.Cut, create apps.Create) (dataset apps.Dataset, err error) {
	if err := cut.Check(); err != nil {
		return apps.Dataset{}, err
	}
	s, err := read(in)
	if err != nil {
		return apps.Dataset{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	n := len(s.all.labels)
	if n > math.MaxInt32 {
		return apps.Dataset{}, fmt.Errorf("%s: %d examples are more than %d", in.Name, n, math.MaxInt32)
	}
	order := shuffled(n, cut.Seed)
	held := int(math.Round(float64(n) * cut.Holdout))
	test, train := order[:held], order[held:]
	if cut.Splits, err = cut.Over(in.Name, len(train), "examples"); err != nil {
		return apps.Dataset{}, err
	}
	s.describe(train)
	var wait sync.WaitGroup
	var largest float64
	wait.Go(func() { largest = curvature(s, train) }) // which takes as long as writing the splits, and uses one core
	err = s.write(train, test, cut.Splits, create)
	wait.Wait()
	s.data.Curvature = largest
	if err != nil {
		return apps.Dataset{}, err
	}
	detail, err := json.Marshal(s.data)
	if err != nil {
		return apps.Dataset{}, fmt.Errorf("encode the dataset's details: %w", err)
	}
	return apps.Dataset{Splits: cut.Splits, Examples: int64(len(train)), Test: int64(held), BadLines: s.badLines, Notes: s.notes, Detail: detail}, nil
}

// purposeOrder separates this use of the seed from all others.
const purposeOrder = 0x6f72646572 // "order"

// shuffled returns the numbers below n in an order drawn from the seed.
func shuffled(n int, seed uint64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	stream := apps.NewStream(ps.Hash(purposeOrder, seed), 0, 0)
	apps.Shuffle(&stream, order)
	return order
}

// source is the whole input, in the file's order, until close.
type source struct {
	data     Data
	all      examples // without ranks
	badLines int
	notes    []string
	texts    []string  // columns of free text, which are left out
	file     io.Closer // holds all; nil = it is in memory
}

func (s *source) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

const wantedFormats = "want LIBSVM (label index:value ...), a CSV table with a header, or IDX images (the MNIST format)"

// rows returns the number of examples.
func (s *source) rows() int { return len(s.all.start) - 1 }

// reading specifies how a file is read: its images, and for a prediction the model's columns.
type reading struct {
	images    func(apps.Input, io.Reader) (*source, error)
	zeroBased *bool                  // of LIBSVM; nil = as the file shows
	columns   func(string) input.Use // of a table; nil = as the file shows
	target    string                 // the column that a table without names may lack
}

func read(in apps.Input) (*source, error) { return readAs(in, reading{images: readImages}) }

func readAs(in apps.Input, how reading) (*source, error) {
	plain, err := input.Plain(in.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	defer plain.Close()
	buffered := bufio.NewReaderSize(plain, 1<<16)
	first, err := buffered.Peek(1 << 16)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	if len(first) >= 2 && first[0] == 0 && first[1] == 0 {
		return how.images(in, buffered)
	}
	switch {
	case looksSparse(first):
		return readSparse(in, buffered, how)
	case input.LooksTable(first):
		return readTable(in, buffered, how)
	}
	return nil, &input.LineError{File: in.Name, Line: 1, Reason: "the format is not known: " + wantedFormats}
}

// looksSparse reports whether the first non-empty line starts like a LIBSVM file: a number, then nothing or index:value.
func looksSparse(text []byte) bool {
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		words := bytes.Fields(line)
		if len(words) == 0 {
			continue
		}
		label, _, _ := bytes.Cut(words[0], []byte(":")) // and possibly a weight
		if _, err := strconv.ParseFloat(string(label), 64); err != nil {
			return false
		}
		return len(words) == 1 || bytes.ContainsRune(words[1], ':')
	}
	return false
}

func readSparse(in apps.Input, r io.Reader, how reading) (*source, error) {
	var file input.Sparse
	var err error
	if how.zeroBased == nil {
		file, err = input.ReadLIBSVM(in.Name, r, in.MaxBadLines)
	} else {
		file, err = input.ReadLIBSVMBased(in.Name, r, in.MaxBadLines, *how.zeroBased)
	}
	if err != nil {
		return nil, err
	}
	s := &source{
		data:     Data{Features: max(1, file.Features), ZeroBased: file.ZeroBased, Unit: 1, Columns: []Column{{Name: "label"}}},
		all:      examples{start: file.Start, index: file.Index, value: file.Value},
		badLines: file.BadLines,
		file:     file,
	}
	if file.ZeroBased {
		s.notes = append(s.notes, "indices count from 0")
	}
	if file.Queries {
		s.notes = append(s.notes, "query ids (qid) are left out")
	}
	if file.Weighted > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d examples have a weight, which is left out", file.Weighted))
	}
	s.all.labels = make([]float32, 0, len(file.Labels))
	for i, label := range file.Labels {
		if math.Abs(label) > math.MaxFloat32 {
			return nil, errors.Join(fmt.Errorf("%s: label %v of example %d is too large", in.Name, label, i+1), file.Close())
		}
		s.all.labels = append(s.all.labels, float32(label))
	}
	return s, nil
}

// labelsName returns the name of the label file that belongs to an image file; "" if the name does not tell.
func labelsName(images string) string {
	images = images[strings.LastIndexAny(images, `/\`)+1:]
	name := strings.Replace(strings.Replace(images, "images", "labels", 1), "idx3", "idx1", 1)
	if name == images {
		return ""
	}
	return name
}

func readImages(in apps.Input, r io.Reader) (*source, error) {
	images, err := readPixels(in, r)
	if err != nil {
		return nil, err
	}
	labels, err := readLabels(in, images.Shape[0])
	if errors.Is(err, errNoLabels) {
		return nil, fmt.Errorf("%s: its labels cannot be found: name the files as in train-images-idx3-ubyte and train-labels-idx1-ubyte, in one folder", in.Name)
	}
	if err != nil {
		return nil, err
	}
	return imageSource(images, labels), nil
}

// readImagesAlone also accepts images without labels.
func readImagesAlone(in apps.Input, r io.Reader) (*source, error) {
	images, err := readPixels(in, r)
	if err != nil {
		return nil, err
	}
	labels, err := readLabels(in, images.Shape[0])
	if err != nil && !errors.Is(err, errNoLabels) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return imageSource(images, labels), nil
}

func readPixels(in apps.Input, r io.Reader) (input.IDX, error) {
	images, err := input.ReadIDX(in.Name, r)
	if err == nil && len(images.Shape) < 2 {
		err = fmt.Errorf("%s: one-dimensional: name the file of images, not of labels", in.Name)
	}
	return images, err
}

// errNoLabels: the image file's name does not yield the name of its label file.
var errNoLabels = errors.New("no file of labels")

func readLabels(in apps.Input, images int) ([]byte, error) {
	name := labelsName(in.Name)
	if name == "" || in.Beside == nil {
		return nil, errNoLabels
	}
	file, err := in.Beside(name)
	if err != nil {
		return nil, fmt.Errorf("%s: its labels, which belong into the same folder as %s: %w", in.Name, name, err)
	}
	labels, err := input.ReadIDX(name, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(labels.Shape) != 1 || labels.Shape[0] != images {
		return nil, fmt.Errorf("%s: labels of shape %v for %d images: it belongs to another file, or one of them is cut short", name, labels.Shape, images)
	}
	return labels.Data, nil
}

// imageSource keeps the pixels that are not black, in handwriting a fifth. Labels may be nil.
func imageSource(images input.IDX, labels []byte) *source {
	pixels := len(images.Data) / images.Shape[0]
	s := &source{data: Data{Features: pixels, Unit: 1.0 / 255, Columns: []Column{{Name: "label"}}}}
	s.all.start = []int{0}
	for i := range images.Shape[0] {
		for p, v := range images.Data[i*pixels : (i+1)*pixels] {
			if v != 0 {
				s.all.index, s.all.value = append(s.all.index, uint32(p)), append(s.all.value, float32(v))
			}
		}
		s.all.start = append(s.all.start, len(s.all.index))
	}
	for _, label := range labels {
		s.all.labels = append(s.all.labels, float32(label))
	}
	return s
}

// ErrOneColumn is the fault of a table from which nothing can be predicted.
var ErrOneColumn = errors.New("one column: nothing to predict it from")

func readTable(in apps.Input, r io.Reader, how reading) (*source, error) {
	file, err := input.TableOptions{Columns: in.Columns, Target: how.target, Ignore: in.Ignore, Needed: in.Target, Use: how.columns}.Read(in.Name, r, in.MaxBadLines)
	if err != nil {
		return nil, err
	}
	if len(file.Columns) < 2 && how.columns == nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", in.Name, ErrOneColumn), file.Close())
	}
	s := &source{
		data:     Data{Unit: 1},
		all:      examples{labels: make([]float32, file.Rows), start: file.Start, index: file.Index, value: file.Value},
		badLines: file.BadLines,
		notes:    file.Notes,
		file:     file,
	}
	s.data.Headerless, s.texts = file.Headerless, file.Texts
	for _, c := range file.Columns {
		s.data.Columns = append(s.data.Columns, Column{Name: c.Name, Words: c.Words, DayFirst: c.DayFirst, Missing: int64(file.Rows - c.Cells)})
	}
	return s, nil
}

// write distributes the examples: rank r goes to split r mod splits.
func (s *source) write(train, test []int, splits int, create apps.Create) error {
	type memory struct {
		file    splitFile
		encoded []byte
	}
	unused := sync.Pool{New: func() any { return &memory{file: splitFile{features: uint32(s.data.storedFeatures())}} }}
	encode := func(id int) (*memory, error) {
		m := unused.Get().(*memory)
		m.file.id = ps.Split(id)
		s.deal(&m.file.train, train, id, splits)
		s.deal(&m.file.test, test, id, splits)
		m.encoded = m.file.encode(m.encoded[:0])
		return m, nil
	}
	return parallel.InOrder(runtime.GOMAXPROCS(0), splits, encode, func(id int, m *memory) error {
		w, err := create(ps.Split(id))
		if err == nil {
			_, err = w.Write(m.encoded)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			return fmt.Errorf("write split %d: %w", id, err)
		}
		unused.Put(m)
		return nil
	})
}

// deal replaces a list of examples by a selection in a given order.
func (s *source) deal(to *examples, order []int, from, step int) {
	entries, n := 0, (max(len(order)-from, 0)+step-1)/step
	for rank := from; rank < len(order); rank += step {
		entries += s.all.start[order[rank]+1] - s.all.start[order[rank]]
	}
	to.start = append(slices.Grow(to.start[:0], n+1), 0)
	to.ranks, to.labels = slices.Grow(to.ranks[:0], n), slices.Grow(to.labels[:0], n)
	to.index, to.value = slices.Grow(to.index[:0], entries), slices.Grow(to.value[:0], entries)
	for rank := from; rank < len(order); rank += step {
		i := order[rank]
		to.ranks = append(to.ranks, uint32(rank))
		to.labels = append(to.labels, s.all.labels[i])
		to.index = append(to.index, s.all.index[s.all.start[i]:s.all.start[i+1]]...)
		to.value = append(to.value, s.all.value[s.all.start[i]:s.all.start[i+1]]...)
		to.start = append(to.start, len(to.index))
	}
}
