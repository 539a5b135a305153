package wire

import (
	"errors"
	"fmt"

	"github.com/tierml/tierml/ps"
)

// Code is the outcome of a request, as a whole or for one partition. The numbers are part of the protocol.
type Code uint32

const (
	OK        Code = 0
	Committed Code = 1  // had been committed before: nothing left to do
	Moved     Code = 2  // another server has the partition
	Retry     Code = 3  // not here, or not yet here: retry after a pause
	Stale     Code = 4  // the generation has ended
	Fenced    Code = 5  // the incarnation was given up
	NotStaged Code = 6  // nothing to commit: stage again
	Invalid   Code = 7  // does not fit the schema or the protocol
	Overflow  Code = 8  // the sums overflow fixed-point numbers
	Refused   Code = 9  // the frame itself: version, job, length, form
	Internal  Code = 10 // the server failed
)

// Errors of codes that package ps does not know.
var (
	ErrStale    = errors.New("generation is over")
	ErrRetry    = errors.New("not ready")
	ErrMoved    = errors.New("partition has moved")
	ErrRefused  = errors.New("frame refused")
	ErrInternal = errors.New("server failed")
)

// Err returns the error for a code; nil for OK and Committed.
func (c Code) Err() error {
	switch c {
	case OK, Committed:
		return nil
	case Moved:
		return ErrMoved
	case Retry:
		return ErrRetry
	case Stale:
		return ErrStale
	case Fenced:
		return ps.ErrFenced
	case NotStaged:
		return ps.ErrNotStaged
	case Invalid:
		return ps.ErrInvalid
	case Overflow:
		return ps.ErrOverflow
	case Refused:
		return ErrRefused
	default:
		return ErrInternal
	}
}

// CodeOf returns the code for an error of package ps.
func CodeOf(err error) Code {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ps.ErrFenced):
		return Fenced
	case errors.Is(err, ps.ErrNotStaged):
		return NotStaged
	case errors.Is(err, ps.ErrOverflow):
		return Overflow
	case errors.Is(err, ps.ErrEarly):
		return Retry
	case errors.Is(err, ps.ErrInvalid):
		return Invalid
	default:
		return Internal
	}
}

func (c Code) String() string {
	if c == OK {
		return "ok"
	}
	if c == Committed {
		return "already committed"
	}
	if c > Internal {
		return fmt.Sprintf("code %d", uint32(c))
	}
	return c.Err().Error()
}
