// Package doctor checks that everything a job needs is present before anything is bought, and says how to fix what is not.
//
// Each check is a small function of the interface or value that it examines. The package starts and buys nothing, and changes nothing
// except one small object that it writes to a store and removes again.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/provisioner"
)

// Status is the result of a check.
type Status string

// The possible results.
const (
	OK      Status = "ok"
	Warning Status = "warning" // it may fail, or could not be examined
	Failed  Status = "failed"  // the job cannot run like this
	Skipped Status = "skipped" // a check that it depends on has failed
)

// Result is what a check found.
type Result struct {
	Check   string  `json:"check"`
	Status  Status  `json:"status"`
	Found   string  `json:"found"`
	Advice  string  `json:"advice,omitempty"` // what to do
	Seconds float64 `json:"seconds"`
}

// Check is one thing to examine.
type Check struct {
	Name string
	// Needs names a check that must not have failed.
	Needs string
	// Look returns what it found. An error is a failure, unless it is a *Problem that says otherwise.
	Look func(ctx context.Context) (found string, err error)
}

// Problem is something wrong, with what to do about it.
type Problem struct {
	What, Advice string
	Mild         bool // a warning
}

func (p *Problem) Error() string { return p.What }

// Wrong returns a failure, with what to do about it.
func Wrong(advice, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Advice: advice}
}

// Warn returns a warning, with what to do about it.
func Warn(advice, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Advice: advice, Mild: true}
}

// Denied turns a denied permission into advice.
func Denied(err error, advice string) error {
	if errors.Is(err, provisioner.ErrDenied) {
		return Wrong(advice, "%v", err)
	}
	return Wrong("the message is the provider's own; docs/troubleshooting.md has more", "%v", err)
}

// patience is the maximum duration of one check.
const patience = time.Minute

// Run performs all checks in order; done receives each result.
func Run(ctx context.Context, checks []Check, done func(Result)) []Result {
	var results []Result
	status := map[string]Status{}
	for _, c := range checks {
		r := Result{Check: c.Name}
		if s := status[c.Needs]; c.Needs != "" && (s == Failed || s == Skipped) {
			r.Status, r.Found = Skipped, "needs "+c.Needs
		} else {
			r = look(ctx, c)
		}
		status[c.Name] = r.Status
		results = append(results, r)
		done(r)
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

func look(ctx context.Context, c Check) Result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	bar := progress.Start(ctx, "Looking at "+c.Name, 0, progress.Things)
	defer bar.Done()
	began := time.Now()
	found, err := c.Look(ctx)
	r := Result{Check: c.Name, Status: OK, Found: found, Seconds: time.Since(began).Seconds()}
	if err == nil {
		return r
	}
	r.Status, r.Found = Failed, firstLine(err.Error())
	if p, ok := errors.AsType[*Problem](err); ok {
		r.Advice = p.Advice
		if p.Mild {
			r.Status = Warning
		}
	}
	return r
}

func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if more {
		return first + " (and " + fmt.Sprint(1+strings.Count(rest, "\n")) + " more)"
	}
	return first
}

// Count returns how many checks ended with a status.
func Count(results []Result, s Status) (n int) {
	for _, r := range results {
		if r.Status == s {
			n++
		}
	}
	return n
}

// marks are what terminals show; the words are next to them.
var marks = map[Status]string{OK: "✓", Warning: "!", Failed: "✗", Skipped: "-"}

var colors = map[Status]string{OK: "32", Warning: "33", Failed: "31", Skipped: "2"}

// WriteLine prints a result for people.
func (r Result) WriteLine(w io.Writer, color bool) error {
	var text terminal.Text
	style := ""
	if color {
		style = "\x1b[" + colors[r.Status] + "m"
	}
	text.Paint(style, marks[r.Status])
	fmt.Fprintf(&text, " %-20s %s\n", r.Check, r.Found)
	if r.Advice != "" {
		fmt.Fprintf(&text, "%s%s\n", strings.Repeat(" ", 23), r.Advice)
	}
	return table.Folded(terminal.Raw(w), func(w io.Writer) error {
		_, err := io.WriteString(w, text.String())
		return err
	})
}

// Table lists results.
func Table(results []Result) table.Table {
	t := table.Table{Data: results, Columns: []table.Column{
		{Name: "check", Title: "CHECK"}, {Name: "status", Title: "STATUS"}, {Name: "found", Title: "FOUND"}, {Name: "advice", Title: "WHAT TO DO"},
		{Name: "seconds", Title: "SECONDS"},
	}}
	for _, r := range results {
		t.Rows = append(t.Rows, []table.Cell{table.Of(r.Check), table.Of(r.Status), table.Of(r.Found), table.Of(r.Advice),
			{Text: fmt.Sprintf("%.2f", r.Seconds), Value: r.Seconds}})
	}
	return t
}
