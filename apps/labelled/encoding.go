package labelled

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/apps/model"
)

// Encoding converts a data file to the features of a finished model, which Task.Describe wrote.
type Encoding struct {
	Target  string
	Classes []string // empty for a regression

	inputs   int
	unit     float64
	features map[string]int // of tables: a feature's index by name
	means    []float32
	scales   []float32

	zeroBased  bool     // LIBSVM
	headerless []string // columns of a table whose first line does not name them
	dayFirst   []string // columns whose dates with slashes begin with the day
}

// NewEncoding reads the encoding of a model with this number of inputs.
func NewEncoding(m model.Model, inputs int) (*Encoding, error) {
	e := &Encoding{Target: m.Metadata["target"], inputs: inputs}
	var err error
	if e.unit, err = strconv.ParseFloat(m.Metadata["unit"], 64); err != nil {
		return nil, fmt.Errorf("the model's unit: %w", err)
	}
	if classes := m.Metadata["classes"]; classes != "" {
		if err := json.Unmarshal([]byte(classes), &e.Classes); err != nil {
			return nil, fmt.Errorf("the model's classes: %w", err)
		}
	}
	named, isTable := m.Metadata["features"]
	e.zeroBased = m.Metadata[metadataBase] == "0"
	if columns := m.Metadata[metadataColumns]; columns != "" {
		if err := json.Unmarshal([]byte(columns), &e.headerless); err != nil {
			return nil, fmt.Errorf("the model's columns: %w", err)
		}
	}
	if days := m.Metadata[metadataDays]; days != "" {
		if err := json.Unmarshal([]byte(days), &e.dayFirst); err != nil {
			return nil, fmt.Errorf("the model's columns of dates: %w", err)
		}
	}
	if !isTable {
		return e, nil
	}
	var names []string
	if err := json.Unmarshal([]byte(named), &names); err != nil {
		return nil, fmt.Errorf("the model's features: %w", err)
	}
	mean, _ := m.Tensor(tensorMean)
	scale, _ := m.Tensor(tensorScale)
	e.means, e.scales = mean.Float, scale.Float
	if len(names) != inputs || len(e.means) != inputs || len(e.scales) != inputs {
		return nil, fmt.Errorf("the model has %d inputs, %d names, %d means and %d scales of features", inputs, len(names), len(e.means), len(e.scales))
	}
	e.features = make(map[string]int, len(names))
	for i, name := range names {
		e.features[name] = i
	}
	return e, nil
}

// Read encodes the examples of a data file in a format that Prepare reads. Labels are the file's own values of the target, as text;
// nil if it has none.
func (e *Encoding) Read(in apps.Input) (examples *Examples, labels []string, badLines int, err error) {
	how := reading{images: readImagesAlone, zeroBased: &e.zeroBased}
	if e.features != nil {
		how.columns, how.target = e.use, e.Target
	}
	if len(in.Columns) == 0 {
		in.Columns = e.headerless
	}
	s, err := readAs(in, how)
	if err != nil {
		return nil, nil, 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	switch {
	case s.data.Table() && e.features != nil:
		examples, labels, err = e.table(s)
	case s.data.Table():
		err = errors.New("it is a table, and the model was trained on numbered features (LIBSVM or images)")
	case e.features != nil:
		err = errors.New("it has numbered features, and the model was trained on a table")
	default:
		examples, labels = e.numbered(s)
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", in.Name, err)
	}
	return examples, labels, s.badLines, nil
}

// use returns how the model uses a table's column: as an input, as the target, or not at all.
func (e *Encoding) use(name string) input.Use {
	if slices.Contains(e.dayFirst, name) {
		return input.DaysFirst
	}
	if _, is := e.features[name]; is {
		return input.Numbers
	}
	for feature := range e.features {
		if strings.HasPrefix(feature, name+"=") {
			return input.Words
		}
	}
	if name == e.Target {
		return input.Either
	}
	return input.Unused
}

// numbered removes features that no training example had.
func (e *Encoding) numbered(s *source) (examples *Examples, labels []string) {
	examples = &Examples{Start: []int{0}}
	for i := range s.rows() {
		for k := s.all.start[i]; k < s.all.start[i+1]; k++ {
			if feature := s.all.index[k]; int(feature) < e.inputs {
				examples.Index = append(examples.Index, feature)
				examples.Value = append(examples.Value, float32(float64(s.all.value[k])*e.unit))
			}
		}
		examples.Start = append(examples.Start, len(examples.Index))
	}
	for _, label := range s.all.labels {
		labels = append(labels, number(label))
	}
	return examples, labels
}

// column describes how a data file's column is encoded.
type column struct {
	feature int // of a column of numbers; -1 otherwise
	target  bool
}

func (e *Encoding) table(s *source) (examples *Examples, labels []string, err error) {
	columns, err := e.columns(s)
	if err != nil {
		return nil, nil, err
	}
	examples = &Examples{Start: []int{0}}
	for i := range s.rows() {
		for k := s.all.start[i]; k < s.all.start[i+1]; k++ {
			at, value := s.all.index[k], s.all.value[k]
			c := columns[at]
			if c.target {
				labels = append(labels, wordOf(s.data.Columns[at], value))
			}
			if c.feature >= 0 {
				examples.Index = append(examples.Index, uint32(c.feature))
				examples.Value = append(examples.Value, (value-e.means[c.feature])/e.scales[c.feature])
			} else if feature, known := e.features[s.data.Columns[at].Name+"="+wordOf(s.data.Columns[at], value)]; known {
				examples.Index = append(examples.Index, uint32(feature))
				examples.Value = append(examples.Value, 1)
			}
		}
		examples.Start = append(examples.Start, len(examples.Index))
	}
	if len(labels) != s.rows() {
		labels = nil // some lack it
	}
	return examples, labels, nil
}

// columns finds the model's columns in a file, which may have others.
func (e *Encoding) columns(s *source) ([]column, error) {
	there := map[string]bool{}
	columns := make([]column, len(s.data.Columns))
	for i, c := range s.data.Columns {
		there[c.Name] = true
		columns[i] = column{feature: -1, target: c.Name == e.Target}
		if feature, isNumber := e.features[c.Name]; isNumber {
			if columns[i].feature = feature; len(c.Words) > 0 {
				return nil, fmt.Errorf("column %q holds words, such as %q; the model was trained on numbers there", c.Name, c.Words[0])
			}
		}
	}
	inOrder := func(a, b string) int { return e.features[a] - e.features[b] }
	for _, name := range slices.SortedFunc(maps.Keys(e.features), inOrder) {
		word := strings.LastIndexByte(name, '=') // a word may contain one, too
		if there[name] || word >= 0 && slices.ContainsFunc(s.data.Columns, func(c Column) bool { return strings.HasPrefix(name, c.Name+"=") }) {
			continue
		}
		missing := name
		if word >= 0 {
			missing = name[:word]
		}
		return nil, fmt.Errorf("there is no column %q, which the model was trained on", missing)
	}
	return columns, nil
}

// wordOf returns a table's cell as a class's word.
func wordOf(c Column, value float32) string {
	if len(c.Words) > 0 {
		return c.Words[int(value)]
	}
	return number(value)
}

func number(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 64) }

// RMSE reports the root-mean-square error of predicted numbers; empty without labels, or if labels are not numbers.
func RMSE(labels []string, predicted func(i int) float64) string {
	return compare("RMSE", labels, predicted, func(d float64) float64 { return d * d }, math.Sqrt)
}

// MAE is RMSE with absolute errors.
func MAE(labels []string, predicted func(i int) float64) string {
	return compare("MAE", labels, predicted, math.Abs, func(mean float64) float64 { return mean })
}

func compare(name string, labels []string, predicted func(i int) float64, fault, figure func(float64) float64) string {
	var sum float64
	for i, label := range labels {
		want, err := strconv.ParseFloat(label, 64)
		if err != nil {
			return ""
		}
		sum += fault(predicted(i) - want)
	}
	if len(labels) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %.6g on %d examples", name, figure(sum/float64(len(labels))), len(labels))
}
