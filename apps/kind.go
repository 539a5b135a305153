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
	// Params documents the hyper-parameters that New takes.
	Params() []Param
	// Prepare reads the input and cuts it into splits, once per job: a pure function of the input's bytes
	// and the cut. Create opens the file of one split; closing it must make it durable.
	Prepare(in Input, cut Cut, create Create) (Dataset, error)
	// New makes the application. Every process of a job gives it the same arguments.
	New(params Params, data Dataset) (Program, error)
}

// Stale is a Kind whose usual way does not suit stale reads: these settings replace the defaults that the job did not
// set, in jobs whose work may read parameters that miss updates of earlier clocks.
type Stale interface {
	Kind
	StaleDefaults() Params
}

// Program is an App with what the job's controller asks of it.
type Program interface {
	App
	// WorkPerClock is the work of one clock over all splits (Stats.Work), on average.
	WorkPerClock() float64
	// Score turns a sum of losses over n examples into the figure that people of the field read, and
	// ScoreName names it: for example the root mean square error, "RMSE". Lower is better.
	Score(loss float64, n int64) float64
	ScoreName() string
	// Evaluate measures every held-out example of every split with the finished tables. Only TestCount and
	// TestLoss are set.
	Evaluate(tables Rows, open Open) (Stats, error)
	// Export makes the model file's contents from the finished tables. The caller may add metadata.
	Export(tables Rows, open Open) (model.Model, error)
}

// Classifier is a Program that says more of a finished model than its score.
type Classifier interface {
	// Judge measures the model with every held-out example; nil if there are none.
	Judge(m model.Model, open Open) (*journal.Quality, error)
}

// Judge returns what a Classifier says; nil for other programs.
func Judge(p Program, m model.Model, open Open) (*journal.Quality, error) {
	if c, can := p.(Classifier); can {
		return c.Judge(m, open)
	}
	return nil, nil
}

// Dense is a Program that knows before its splits are loaded that some rows are read together.
type Dense interface {
	// LeastRows is how many rows of each table some split reads at least, in some clock. A worker that cannot hold them cannot work.
	LeastRows() []uint64
}

// PerClock returns the least number of a split's rows that some clock reads, if a pass over all takes that many clocks.
func PerClock(rows uint64, clocks int) uint64 { return (rows + uint64(clocks) - 1) / uint64(clocks) }

// LeastRows returns those of a Program that says so; of others none.
func LeastRows(p Program) []uint64 {
	if dense, ok := p.(Dense); ok {
		return dense.LeastRows()
	}
	return make([]uint64, len(p.Tables()))
}

// Input is a data file to be read once. Compression is recognised by its first bytes, not from its name.
type Input struct {
	Name string // for messages
	Data io.Reader
	// MaxBadLines is how many bad lines to leave out before giving up. 0: the first one is an error, since
	// a file that is not what it is said to be should not train a model quietly.
	MaxBadLines int
	// Columns are the names of a table's columns, for a file whose first line does not have them.
	Columns []string
	// Ignore are columns of a table to be left out.
	Ignore []string
	// Beside opens another file of the same folder by its name, for formats that keep one data set in
	// several files. Nil: there are no other files.
	Beside func(name string) (io.ReadCloser, error)
}

// Defaults is raised when a Kind's defaults change. A run keeps those that it began with: resumed with others it would continue with the
// state of another method.
const Defaults = 2

// Former is a Kind whose defaults have changed.
type Former interface {
	// Former completes settings by the defaults that runs had when Defaults was at a former value.
	Former(defaults int, given Params) Params
}

// Cut says how to cut the input.
type Cut struct {
	Splits  int     // number of splits, >= 1
	Fewer   bool    // take fewer splits where there is too little data
	Holdout float64 // share of examples kept from training to measure with, in [0, 1)
	Seed    uint64  // decides which examples are held out
}

// Check refuses a cut that no data can have.
func (c Cut) Check() error {
	if c.Splits < 1 {
		return fmt.Errorf("%d splits: write 1 or more", c.Splits)
	}
	if !(c.Holdout >= 0 && c.Holdout < 1) {
		return fmt.Errorf("held-out share %v: write a number from 0 up to, but not including, 1", c.Holdout)
	}
	return nil
}

// ErrTooSmall is that there are fewer units to train on than splits.
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

// ReadSplit reads a split's file, which must not be changed: one that is in memory is not copied. One that knows how many bytes are
// left takes no more memory than those.
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
	rest, err := io.ReadAll(r) // what came meanwhile
	return append(data, rest...), err
}

// Dataset is what was learned about the data while it was cut. Its JSON form goes to every process of a job.
type Dataset struct {
	Splits   int   `json:"splits"`
	Examples int64 `json:"examples"` // to train on
	Test     int64 `json:"test"`     // held out
	BadLines int   `json:"bad_lines,omitempty"`
	// Notes say what was made of the data that people may not expect, each in a line.
	Notes []string `json:"notes,omitempty"`
	// Detail is the application's own: sizes of its tables, means and the like.
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
