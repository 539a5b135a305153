package ps

import (
	"errors"
	"fmt"
)

// Errors of a shard; callers handle each in its own way.
var (
	// ErrFenced: the sender's incarnation was given up; it must rejoin empty.
	ErrFenced = errors.New("incarnation is fenced")
	// ErrNotStaged: a commit of something that was never staged here, or a piece without the earlier ones.
	ErrNotStaged = errors.New("contribution is not staged")
	// ErrPassed: the cut's clock was folded before its name arrived; a later one must be named.
	ErrPassed = errors.New("clock has passed")
	// ErrNoUndo: this owner cannot return to that cut by itself; its backup can.
	ErrNoUndo = errors.New("no undo for that cut")
	// ErrBusy: another change of this partition is in progress.
	ErrBusy = errors.New("partition is busy with another change")
	// ErrEarly: the contribution has to wait for others; retry it after a pause.
	ErrEarly = errors.New("contribution comes too early")
	// ErrInvalid: the message does not fit the schema or the protocol.
	ErrInvalid = errors.New("invalid message")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
