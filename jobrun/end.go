package jobrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/rundir"
)

// lookAgain is how often a run that shall end is looked at.
const lookAgain = 100 * time.Millisecond

// ErrEnded: no process holds the run's directory.
var ErrEnded = errors.New("the run does not go on")

// End asks the run in a directory to end, in order or at once, and waits until its controller is gone. Heard is called once
// the run knows. By names the requester, for the journal.
func End(ctx context.Context, dir, by string, now bool, heard func()) error {
	if !rundir.Held(dir) {
		return fmt.Errorf("%s: %w", dir, ErrEnded)
	}
	asked := false
	for rundir.Held(dir) {
		if !asked {
			err := scaling.Stop(ctx, dir, by, now)
			switch {
			case err == nil:
				asked = true
				heard()
			case !errors.Is(err, scaling.ErrNotRunning): // else it has not opened its door yet, or closes it just now
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the run's end: %w", context.Cause(ctx))
		case <-time.After(lookAgain):
		}
	}
	return nil
}
