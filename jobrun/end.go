package jobrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/provisioner"
)

// lookAgain is the interval at which a stopping run is checked.
const lookAgain = 100 * time.Millisecond

// ErrEnded: no process holds the run's directory.
var ErrEnded = errors.New("the run does not go on")

// End requests the end of the run in a directory, graceful or immediate, and waits until its controller has exited. Heard is called once
// the run has the request. By names the requester, for the journal.
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
			case !errors.Is(err, scaling.ErrNotRunning): // otherwise it has not opened its socket yet, or is just closing it
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

// endCommand returns the provider's commands that end machines, one for each zone; nil if this program is the provider.
func (r *session) endCommand() func([]provisioner.Instance) string {
	at, command := r.real(), r.provider.Facts().End
	if at == nil || command == "" {
		return nil
	}
	return func(machines []provisioner.Instance) string {
		names := map[string][]string{}
		var zones []string
		for _, m := range machines {
			zone := ""
			if strings.Contains(command, "{zone}") {
				zone = m.Pool.Zone
			}
			if names[zone] == nil {
				zones = append(zones, zone)
			}
			names[zone] = append(names[zone], string(m.ID))
		}
		slices.Sort(zones)
		commands := make([]string, len(zones))
		for i, zone := range zones {
			commands[i] = strings.NewReplacer("{region}", at.Region, "{project}", at.Project, "{zone}", zone,
				"{machines}", strings.Join(names[zone], " ")).Replace(command)
		}
		return strings.Join(commands, "; ")
	}
}

// errStopped ends calls that precede the run's controller, at the first request to stop.
type errStopped string

func (why errStopped) Error() string {
	return "stopped by " + string(why) + " before anything was bought"
}

// untilStopped returns a context that ends at the first wish to stop. Release ends
// the watching.
func untilStopped(ctx context.Context, stop <-chan string) (until context.Context, release func()) {
	until, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case why := <-stop:
			end(errStopped(why))
		case <-until.Done():
		}
	}()
	return until, func() {
		end(nil)
		<-done
	}
}

// unended reports whether a run left machines, whose provider does not answer.
func unended(err error) bool {
	_, left := errors.AsType[*runner.Left](err)
	return left
}

// endsAlone is how long a machine runs without a controller.
func (r *session) endsAlone() time.Duration {
	if r.real() == nil {
		return r.cfg.Job.OrphanAfter
	}
	return time.Duration(r.powerOffAfter()) * time.Minute
}
