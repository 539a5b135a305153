// Package exitcode attaches exit codes to errors. Scripts rely on the codes: they are part of the interface.
package exitcode

import (
	"errors"
	"strconv"
)

// The exit codes.
const (
	Done        = 0   // success
	Failed      = 1   // it was tried and failed, or the answer to "Proceed?" was no
	Usage       = 2   // the command line or the job file is wrong; nothing was started
	Limit       = 3   // ended cleanly before it was done: budget or max_duration is used up
	Interrupted = 130 // ended cleanly by Ctrl-C (or SIGTERM)
)

type coded struct {
	error
	code int
}

func (e coded) Unwrap() error { return e.error }

// With gives an error an exit code.
func With(code int, err error) error { return coded{err, code} }

// Wrong marks an error as a wrong command line, or a wrong file that it names: nothing was started.
func Wrong(err error) error { return With(Usage, err) }

// Of returns the code of an error; false: it has none.
func Of(err error) (code int, ok bool) {
	e, ok := errors.AsType[coded](err)
	return e.code, ok
}

// IsWrong reports whether an error has the code Usage.
func IsWrong(err error) bool {
	code, ok := Of(err)
	return ok && code == Usage
}

// Passed is the exit code of a command that was run for the user, who has seen its output.
type Passed int

func (c Passed) Error() string { return "exit code " + strconv.Itoa(int(c)) }
