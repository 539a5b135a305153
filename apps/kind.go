package apps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/ps"
)

// Kind is one kind of application, before data and hyper-parameters.
type Kind interface {
	Name() string
	// Params documents the hyper-parameters that New accepts.
	Params() []Param
	// Prepare reads the input and cuts it into splits, once per job: a pure function of the input's bytes
	// and the cut. Create opens the file of one split; closing it must make it durable.
	Prepare(in Input, cut Cut, create Create) (Dataset, error)
	// New creates the application. Every process of a job passes it the same arguments.
	New(params Params, data Dataset) (Program, error)
}

// Stale is a Kind whose defaults do not suit stale reads: these settings replace the defaults that the job did not set, in jobs whose work
// may read parameters that lack updates of earlier clocks.
type Stale interface {
	Kind
	StaleDefaults() Params
}

// Program is an App with what the job's controller needs.
type Program interface {
	App
	// WorkPerClock is the work of one clock over all splits (Stats.Work), on average.
	WorkPerClock() float64
	// Score converts a sum of losses over n examples to the metric that is usual in the field, and ScoreName names it: for example the root
	// mean square error, "RMSE". Lower is better.
	Score(loss float64, n int64) float64
	ScoreName() string
	// Evaluate measures every held-out example of every split with the finished tables. Only TestCount and
	// TestLoss are set.
	Evaluate(tables Rows, open Open) (Stats, error)
	// Export creates the model file's contents from the finished tables. The caller may add metadata.
	Export(tables Rows, open Open) (model.Model, error)
}

// Classifier is a Program that reports more about a finished model than its score.
type Classifier interface {
	// Judge measures the model with every held-out example; nil if there are none.
	Judge(m model.Model, open Open) (*journal.Quality, error)
}

// Judge returns the report of a Classifier; nil for other programs.
func Judge(p Program, m model.Model, open Open) (*journal.Quality, error) {
	if c, can := p.(Classifier); can {
		return c.Judge(m, open)
	}
	return nil, nil
}

// Dense is a Program that knows before its splits are loaded that some rows are read together.
type Dense interface {
	// LeastRows is the minimum number of rows of each table that some split reads in some clock. A worker that cannot hold them cannot
	// work.
	LeastRows() []uint64
}

// PerClock returns the minimum number of a split's rows that some clock reads, if a pass over all has that many clocks.
func PerClock(rows uint64, clocks int) uint64 { return (rows + uint64(clocks) - 1) / uint64(clocks) }

// LeastRows returns those of a Dense program; none for others.
func LeastRows(p Program) []uint64 {
	if dense, ok := p.(Dense); ok {
		return dense.LeastRows()
	}
	return make([]uint64, len(p.Tables()))
}

// Input is a data file to be read once. Compression is recognised by the first bytes, not by the name.
type Input struct {
	Name string // for messages
	Data io.Reader
	// MaxBadLines is how many bad lines to skip before giving up. 0: the first one is an error, since a file of the wrong kind should not
	// silently train a model.
	MaxBadLines int
	// Columns are the names of a table's columns, for a file whose first line lacks them.
	Columns []string
	// Ignore are columns of a table to leave out.
	Ignore []string
	// Target is a table's column to predict, if it is named: rows without it are left out.
	Target string
	// Beside opens another file in the same folder by name, for formats that split one data set over several files. Nil: there are no other
	// files.
	Beside func(name string) (io.ReadCloser, error)
}

// TargetOf returns the column that parameters name as the one to predict; empty = none, or it is given by its number.
func TargetOf(params Params) string {
	name, _ := params["target"].(string)
	return name
}

// Defaults is incremented when a Kind's defaults change. A run keeps those that it started with: resumed with others it would continue with
// the state of a different method.
const Defaults = 2

// Former is a Kind whose defaults have changed.
type Former interface {
	// Former completes settings with the defaults that applied when Defaults had a former value.
	Former(defaults int, given Params) Params
}

// Cut specifies how to cut the input.
type Cut struct {
	Splits  int     // number of splits, >= 1
	Fewer   bool    // make fewer splits if there is too little data
	Holdout float64 // share of examples held out from training for evaluation, in [0, 1)
	Seed    uint64  // decides which examples are held out
}

// Check rejects a cut that is impossible for any data.
func (c Cut) Check() error {
	if c.Splits < 1 {
		return fmt.Errorf("%d splits: write 1 or more", c.Splits)
	}
	if !(c.Holdout >= 0 && c.Holdout < 1) {
		return fmt.Errorf("held-out share %v: write a number from 0 up to, but not including, 1", c.Holdout)
	}
	return nil
}

// ErrTooSmall means that there are fewer units to train on than splits.
var ErrTooSmall = errors.New("are fewer than the number of splits,")

// Over returns the number of splits for an input with that many units to train on. A unit, such as a user, is in one split.
func (c Cut) Over(input string, units int, name string) (int, error) {
	switch {
	case units >= c.Splits:
		return c.Splits, nil
	case units == 0:
		return 0, fmt.Errorf("%s: 0 %s to train on: add data, or hold out less than %v", input, name, c.Holdout)
	case c.Fewer:
		return units, nil
	}
	return 0, fmt.Errorf("%s: %d %s to train on %w %d: ask for at most %[2]d splits, or hold out less",
		input, units, name, ErrTooSmall, c.Splits)
}

// Create opens the file of one split for writing; Open opens it for reading.
type (
	Create func(ps.Split) (io.WriteCloser, error)
	Open   func(ps.Split) (io.ReadCloser, error)
)

// ReadSplit reads a split's file, which must not be changed: one in memory is not copied. A reader that knows how many bytes are left needs
// no more memory than that.
func ReadSplit(r io.Reader) ([]byte, error) {
	if held, is := r.(interface{ Held() []byte }); is {
		return held.Held(), nil
	}
	known, can := r.(interface{ Len() int })
	if !can {
		return io.ReadAll(r)
	}
	data := make([]byte, known.Len())
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(r) // what was added meanwhile
	return append(data, rest...), err
}

// Dataset is what was learned about the data while it was cut. Its JSON form goes to every process of a job.
type Dataset struct {
	Splits   int   `json:"splits"`
	Examples int64 `json:"examples"` // to train on
	Test     int64 `json:"test"`     // held out
	BadLines int   `json:"bad_lines,omitempty"`
	// Notes tell how the data was interpreted where people may not expect it, one per line.
	Notes []string `json:"notes,omitempty"`
	// Detail belongs to the application: sizes of its tables, means and the like.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Registry is the applications that a program offers.
type Registry []Kind

// Find returns the application of that name.
func (r Registry) Find(name string) (Kind, error) {
	names := make([]string, len(r))
	for i, k := range r {
		if names[i] = k.Name(); names[i] == name {
			return k, nil
		}
	}
	if near := spelling.Nearest(name, names); near != "" {
		return nil, fmt.Errorf("unknown application %q: did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("unknown application %q: there are %s", name, strings.Join(names, ", "))
}
