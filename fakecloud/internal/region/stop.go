package region

import (
	"time"

	"github.com/tierml/tierml/market"
)

// Stop ends the processes of on-demand machines and their billing; Start brings them back. If one cannot be stopped, none is.
func (r *Region) Stop(now time.Time, ids []string, force bool) ([]Change, error) {
	r.Advance(now)
	for _, id := range ids {
		i, ok := r.instances[id]
		switch {
		case !ok:
			return nil, NotFound(id)
		case i.Pool.Class == market.Spot:
			return nil, Errorf("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time "+
				"Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", id)
		case i.State != Running && i.State != Stopping && i.State != Stopped:
			return nil, Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be stopped.", id)
		}
	}
	var changes []Change
	for _, id := range ids {
		i := r.instances[id]
		change := Change{ID: id, Previous: i.State}
		if i.State == Running {
			r.close(r.now, i, UserRequest)
			i.State = Stopping
			r.emit(Halt{ID: id, Force: force})
		}
		change.Current = i.State
		changes = append(changes, change)
	}
	return changes, nil
}

// Start launches stopped machines again: they keep ids, tags and user data, and are billed from now on. If one cannot be started, none is.
func (r *Region) Start(now time.Time, ids []string) ([]Change, error) {
	r.Advance(now)
	wanted := make(map[market.Pool]int)
	starts := 0
	for _, id := range ids {
		i, ok := r.instances[id]
		switch {
		case !ok:
			return nil, NotFound(id)
		case i.State.Alive():
			continue
		case i.State != Stopped:
			return nil, Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be started.", id)
		}
		wanted[i.Pool]++
		starts++
		if short := r.shortFor(i.Pool, wanted[i.Pool], starts); short != nil {
			return nil, short
		}
	}
	var changes []Change
	for _, id := range ids {
		i := r.instances[id]
		change := Change{ID: id, Previous: i.State}
		if i.State == Stopped {
			i.State, i.Launched, i.Ended, i.Cause = Pending, seconds(r.now), time.Time{}, Cause{}
			i.BootAt = r.now.Add(r.faults.bootTime(i.Pool, r.config.Boot, r.now))
			r.emit(Launched{Instance: i.clone()})
		}
		change.Current = i.State
		changes = append(changes, change)
	}
	return changes, nil
}

// Interrupt recommends leaving spot machines and takes them back after a while, with the usual notice before the end. The Fault Injection
// Service does the same.
func (r *Region) Interrupt(now time.Time, targets []string, after time.Duration) error {
	if err := r.Rebalance(now, targets); err != nil {
		return err
	}
	return r.each(now, targets, true, func(i *Instance) {
		if i.Deadline.IsZero() {
			i.lifeOver = r.now.Add(max(0, after-r.config.Notice))
		}
	})
}
