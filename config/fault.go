package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

type position struct{ line, column int }

// Fault is one mistake in a job file.
type Fault struct {
	File         string
	Line, Column int    // from 1; 0 if the mistake has no place, such as a file that cannot be read
	Field        string // "resources.any_of[0].type"; "" if it is not about a field
	Problem      string // what is wrong
	Instead      string // what to write instead
}

// Error returns "job.yaml:3:9: max_duration: "10" has no unit; write 10s, 10m or 10h".
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	b.WriteString(": ")
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Problem)
	if f.Instead != "" {
		b.WriteString("; " + f.Instead)
	}
	return b.String()
}

// Faults are all mistakes of a job file, sorted by place. The program ends with exit code 2 on them.
type Faults []Fault

// Error returns one line for each mistake.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Sort orders faults by their place in the file.
func (fs Faults) Sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
}

// mostFaults is how many mistakes are reported: finding a cure for each takes longer than reading it, and users do not read more.
const mostFaults = 100

// report sorts faults, and says how many more there are.
func (fs Faults) report(file string, more int) Faults {
	fs.Sort()
	if more > 0 {
		fs = append(fs, Fault{File: file, Problem: fmt.Sprintf("has %d more mistakes", more), Instead: "correct these first"})
	}
	return fs
}

// Fault reports a mistake in a field that only another package can detect, such as an unknown application or a parameter that the
// application refuses. Field is the path as in the file, "train.params.rank"; if the file does not mention it, the nearest enclosing one
// gives the place.
func (j *Job) Fault(field, problem, instead string) Faults {
	at := j.place(field)
	return Faults{{File: j.file, Line: at.line, Column: at.column, Field: field, Problem: problem, Instead: instead}}
}

func (j *Job) place(field string) position {
	for field != "" {
		if at, ok := j.positions[field]; ok {
			return at
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return j.positions[""]
}

// File returns the path that the job was loaded from.
func (j *Job) File() string { return j.file }
