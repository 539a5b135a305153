package labelled

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/ps"
)

// Task is a dataset with one column chosen as the target and the others turned into features:
//
//   - A table's numbers are standardised: less the column's mean, divided by its standard deviation. A number that
//     is missing counts as the mean, hence as 0.
//   - A column of words becomes one feature for each of its words, 1 where the word is and else 0. A word that is
//     missing leaves all 0.
//   - Features of LIBSVM files are taken as they are, pixels of images as shares from 0 to 1.
type Task struct {
	Dataset apps.Dataset
	Data    Data
	// Target is the chosen column.
	Target Column
	// Inputs is the number of features.
	Inputs int
	// Classes are the names of the target's classes; empty for a task of regression.
	Classes []string
	// Entries is the number of features that are not missing (in tables) or not zero, over all training examples.
	Entries int64

	target  int   // the column's index
	offsets []int // by column: its first feature; -1 for the target
}

// TargetParam declares the hyper-parameter that chooses the column to predict; usual is the default.
func TargetParam(usual string) apps.Param {
	return apps.Param{Name: "target", Default: 0, Min: 0, Max: 1e6, Whole: true, Column: true, Unit: "column, by name or from 1",
		Why: "the column of a table to predict; 0: " + usual}
}

// Regression creates the task of predicting a number. Params choose the column (TargetParam); the usual one is a table's last column of
// numbers. Files other than tables offer no choice.
func Regression(dataset apps.Dataset, params apps.Params) (*Task, error) {
	return newTask(dataset, params, func(columns []Column) int {
		for i := len(columns) - 1; i >= 0; i-- {
			if len(columns[i].Words) == 0 {
				return i
			}
		}
		return len(columns) - 1
	}, func(t *Task) error {
		if len(t.Target.Words) > 0 {
			return fmt.Errorf("column %q holds words: they can be classes, but not be predicted as a number; %s", t.Target.Name, t.Data.choices(t.Target.Name))
		}
		return nil
	})
}

// WeightsParam declares the hyper-parameter that weights classes.
func WeightsParam() apps.Param {
	return apps.Param{Name: "class_weights", Choices: weightNames, Unit: "a word",
		Why: "with balanced an example counts examples / (classes * examples of its class), as in scikit-learn, so that a rare class is not left out"}
}

var weightNames = []string{"none", "balanced"}

// Weights returns the weight of an example of each class, by the parameter's value; nil = all equal.
func (t *Task) Weights(values apps.Values) ([]float32, error) {
	if values.Int("class_weights") == 0 {
		return nil, nil
	}
	counts := t.Target.Counts
	if len(counts) != len(t.Classes) {
		return nil, errors.New("class_weights: the splits do not say how frequent classes are: prepare the data again")
	}
	weights := make([]float32, len(counts))
	for i, n := range counts {
		weights[i] = float32(float64(t.Size()) / (float64(len(counts)) * float64(max(n, 1))))
	}
	return weights, nil
}

// targetNames are common names of the column to predict.
var targetNames = []string{"class", "label", "target", "y"}

// Classification creates the task of predicting a class. Params choose the column (TargetParam); the usual one is a table's column named
// class, label, target or y, else the last one.
func Classification(dataset apps.Dataset, params apps.Params) (*Task, error) {
	return newTask(dataset, params, func(columns []Column) int {
		for i, c := range columns {
			if slices.Contains(targetNames, strings.ToLower(c.Name)) {
				return i
			}
		}
		return len(columns) - 1
	}, func(t *Task) error {
		if _, chosen := params["target"]; !chosen && t.Target.fractional() {
			return fmt.Errorf("column %q cannot be the class unless you say so: it has %d different values, and not all are whole numbers; %s",
				t.Target.Name, len(t.Target.Values), t.Data.choices())
		}
		t.Classes = t.Target.Words
		for _, v := range t.Target.Values {
			t.Classes = append(t.Classes, strconv.FormatFloat(v, 'g', -1, 64))
		}
		switch len(t.Classes) {
		case 0:
			return fmt.Errorf("column %q cannot be the class: it has more than %d different values; %s", t.Target.Name, MaxClasses, t.Data.choices(t.Target.Name))
		case 1:
			return fmt.Errorf("column %q cannot be the class: it is %s in every line; %s", t.Target.Name, t.Classes[0], t.Data.choices(t.Target.Name))
		}
		return nil
	})
}

// fractional reports whether a column has fractional numbers: they are measurements, and rarely classes.
func (c Column) fractional() bool {
	return slices.ContainsFunc(c.Values, func(v float64) bool { return v != math.Trunc(v) })
}

// Doubts returns what people should know before training.
func (t *Task) Doubts() []string {
	if len(t.Classes) > 0 || len(t.Target.Values) != 1 {
		return nil
	}
	return []string{fmt.Sprintf("column %q is %v in every line: there is nothing to predict", t.Target.Name, t.Target.Values[0])}
}

func newTask(dataset apps.Dataset, params apps.Params, choose func([]Column) int, check func(*Task) error) (*Task, error) {
	data, err := dataOf(dataset)
	if err != nil {
		return nil, err
	}
	target, err := data.column(params["target"])
	if err != nil {
		return nil, err
	}
	t := &Task{Dataset: dataset, Data: data, Inputs: data.Features, Entries: data.Entries}
	switch {
	case target == 0:
		t.target = choose(data.Columns)
	case !data.Table():
		return nil, errors.New("target is for tables: the label of this file is what stands first in each line, or in the file of labels; write 0")
	case target > len(data.Columns):
		return nil, fmt.Errorf("target %d: %s", target, data.choices())
	default:
		t.target = target - 1
	}
	t.Target = data.Columns[t.target]
	if t.Target.Missing > 0 {
		return nil, fmt.Errorf("column %q cannot be the target: %d examples lack it; %s", t.Target.Name, t.Target.Missing, t.Data.choices())
	}
	if err := check(t); err != nil {
		return nil, err
	}
	if data.Table() {
		t.layOut()
	}
	return t, nil
}

// column returns the number from 1 of the column that a value of the parameter target denotes; 0: none is chosen.
func (d Data) column(target any) (int, error) {
	params := apps.Params{}
	if target != nil {
		params["target"] = target
	}
	values, err := params.Resolve([]apps.Param{TargetParam("")})
	if err != nil {
		return 0, err
	}
	name, named := target.(string)
	if !named {
		return values.Int("target"), nil
	}
	if !d.Table() {
		return 1, nil // which is rejected
	}
	for i, c := range d.Columns {
		if c.Name == name {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("target: no column is named %q; %s", name, d.choices())
}

// choices lists the columns except some, for messages.
func (d Data) choices(but ...string) string {
	if !d.Table() {
		return "train on another file"
	}
	var names []string
	for _, c := range d.Columns {
		if !slices.Contains(but, c.Name) {
			names = append(names, c.Name)
		}
	}
	return "set target to one of the columns " + strings.Join(names, ", ")
}

// layOut assigns features to each column except the target.
func (t *Task) layOut() {
	t.offsets = make([]int, len(t.Data.Columns))
	for i, c := range t.Data.Columns {
		if i == t.target {
			t.offsets[i] = -1
			continue
		}
		t.offsets[i] = t.Inputs
		t.Inputs += max(1, len(c.Words))
		t.Entries += c.Present
	}
}

// Names returns the features' names: a column's, or column=word. Only tables have them.
func (t *Task) Names() []string {
	var names []string
	for i, offset := range t.offsets {
		c := t.Data.Columns[i]
		switch {
		case offset < 0:
		case len(c.Words) == 0:
			names = append(names, c.Name)
		default:
			for _, word := range c.Words {
				names = append(names, c.Name+"="+word)
			}
		}
	}
	return names
}

// Examples are sparse rows with a target. Row i has the entries Start[i] to Start[i+1].
type Examples struct {
	Ranks   []uint32  // index in the order of all training examples, ascending
	Targets []float32 // a class's index in Task.Classes, or the number in the input
	Start   []int
	Index   []uint32 // feature
	Value   []float32
}

// Len returns the number of examples.
func (e *Examples) Len() int { return len(e.Targets) }

// Row returns the entries of example i.
func (e *Examples) Row(i int) (index []uint32, value []float32) {
	from, to := e.Start[i], e.Start[i+1]
	return e.Index[from:to], e.Value[from:to]
}

// Load reads a split file and encodes its examples.
func (t *Task) Load(id ps.Split, r io.Reader) (train, test *Examples, err error) {
	file, err := readSplit(r, id)
	if err == nil && file.features != uint32(t.storedFeatures()) {
		err = fmt.Errorf("%d features of %d: it belongs to other data", file.features, t.storedFeatures())
	}
	if err == nil {
		train, err = t.encode(&file.train)
	}
	if err == nil {
		test, err = t.encode(&file.test)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("split %d: %w", id, err)
	}
	if n := train.Len(); n > 0 && int64(train.Ranks[n-1]) >= t.Dataset.Examples {
		return nil, nil, fmt.Errorf("split %d: example %d of %d: it belongs to other data", id, train.Ranks[n-1], t.Dataset.Examples)
	}
	return train, test, nil
}

func (t *Task) storedFeatures() int { return t.Data.storedFeatures() }

// storedFeatures returns the number of distinct indices that a split file's entries can have.
func (d Data) storedFeatures() int {
	if d.Table() {
		return len(d.Columns)
	}
	return d.Features
}

func (t *Task) encode(stored *examples) (*Examples, error) {
	e := &Examples{Ranks: stored.ranks, Targets: stored.labels, Start: stored.start, Index: stored.index, Value: stored.value}
	if t.Data.Table() {
		if err := t.encodeTable(e, stored); err != nil {
			return nil, err
		}
	} else if t.Data.Unit != 1 {
		for i := range e.Value {
			e.Value[i] *= float32(t.Data.Unit)
		}
	}
	if len(t.Classes) == 0 {
		return e, nil
	}
	for i, label := range e.Targets {
		class := int(label)
		if len(t.Target.Words) == 0 {
			found := false
			if class, found = slices.BinarySearch(t.Target.Values, float64(label)); !found {
				return nil, fmt.Errorf("%w: label %v is none of the classes", ErrSplit, label)
			}
		}
		if class >= len(t.Classes) {
			return nil, fmt.Errorf("%w: class %d of %d", ErrSplit, class, len(t.Classes))
		}
		e.Targets[i] = float32(class)
	}
	return e, nil
}

// encodeTable converts stored columns to features and extracts the target.
func (t *Task) encodeTable(e *Examples, stored *examples) error {
	e.Start, e.Index, e.Value = []int{0}, nil, nil
	for i := range stored.labels {
		found := false
		for k := stored.start[i]; k < stored.start[i+1]; k++ {
			column, value := int(stored.index[k]), stored.value[k]
			if column == t.target {
				e.Targets[i], found = value, true
				continue
			}
			if err := t.encodeField(e, column, value); err != nil {
				return err
			}
		}
		if t.target >= 0 && !found {
			return fmt.Errorf("%w: an example without a target", ErrSplit)
		}
		e.Start = append(e.Start, len(e.Index))
	}
	return nil
}

func (t *Task) encodeField(e *Examples, column int, value float32) error {
	c := &t.Data.Columns[column]
	offset := t.offsets[column]
	if len(c.Words) == 0 {
		e.Index = append(e.Index, uint32(offset))
		e.Value = append(e.Value, float32((float64(value)-c.Mean)/c.Scale))
		return nil
	}
	if value < 0 || int(value) >= len(c.Words) {
		return fmt.Errorf("%w: word %v of %d in column %q", ErrSplit, value, len(c.Words), c.Name)
	}
	e.Index = append(e.Index, uint32(offset+int(value)))
	e.Value = append(e.Value, 1)
	return nil
}

// Size returns the number of examples to train on.
func (t *Task) Size() int64 { return t.Dataset.Examples }

// EachSplit reads the split files on all cores, and passes them on in order.
func (t *Task) EachSplit(open apps.Open, do func(id ps.Split, train, test *Examples) error) error {
	type loaded struct{ train, test *Examples }
	load := func(id int) (loaded, error) {
		file, err := open(ps.Split(id))
		if err != nil {
			return loaded{}, fmt.Errorf("open split %d: %w", id, err)
		}
		train, test, err := t.Load(ps.Split(id), file)
		return loaded{train, test}, errors.Join(err, file.Close())
	}
	return parallel.InOrder(runtime.GOMAXPROCS(0), t.Dataset.Splits, load, func(id int, split loaded) error {
		if err := do(ps.Split(id), split.train, split.test); err != nil {
			return fmt.Errorf("split %d: %w", id, err)
		}
		return nil
	})
}

// Judge predicts the held-out examples of all splits: place returns the index of an example's predicted class, and its scores as Tally.Add
// expects them.
func (t *Task) Judge(open apps.Open, place func(test *Examples, i int) (class int, scores []float64)) (*journal.Quality, error) {
	tally := NewTally(t.Classes)
	err := t.EachSplit(open, func(_ ps.Split, _, test *Examples) error {
		for i, target := range test.Targets {
			class, scores := place(test, i)
			tally.AddPlace(int(target), class, scores...)
		}
		return nil
	})
	return tally.Quality(), err
}
