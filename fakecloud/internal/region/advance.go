package region

import (
	"time"

	"github.com/tierml/tierml/market"
)

// Advance carries out, in order of their times, all boots, notices and evictions due until now, and retries waiting requests. This is how
// the market clears: a machine runs while its pool's price is at most its bid.
//
// Invariant: each event has the time for which it was due, so bills do not depend on when the cloud is queried. Time never goes back: an
// earlier now is treated as the latest seen.
//
// Rejected: a ticker. Its period would show in every notice and bill of a market that is replayed faster.
func (r *Region) Advance(now time.Time) {
	for {
		at, next := r.nextDue()
		if !r.retryAt.IsZero() && !r.retryAt.After(now) && (next == nil || r.retryAt.Before(at)) {
			r.retry()
			continue
		}
		if next == nil || at.After(now) {
			break
		}
		r.step(at, next)
	}
	if now.After(r.now) {
		r.now = now
	}
}

// NextWake returns the time of the next boot, notice or eviction, or of the next retry.
func (r *Region) NextWake() (time.Time, bool) {
	at, next := r.nextDue()
	if !r.retryAt.IsZero() && (next == nil || r.retryAt.Before(at)) {
		return r.retryAt, true
	}
	return at, next != nil
}

// nextDue finds the earliest due instance; ties go to the one launched first.
func (r *Region) nextDue() (at time.Time, next *Instance) {
	for _, i := range r.order {
		if t, ok := i.due(); ok && (next == nil || t.Before(at)) {
			at, next = t, i
		}
	}
	return at, next
}

// due returns the time of the instance's next event of its own.
func (i *Instance) due() (time.Time, bool) {
	if !i.State.Alive() {
		return time.Time{}, false
	}
	var at time.Time
	consider := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if i.State == Pending {
		consider(i.BootAt)
	}
	consider(i.runOver())
	if i.Deadline.IsZero() {
		consider(i.crossing)
		consider(i.lifeOver)
	} else {
		consider(i.Deadline)
	}
	return at, !at.IsZero()
}

// step carries out an instance's due events: the end first, since it makes the rest pointless.
func (r *Region) step(at time.Time, i *Instance) {
	switch {
	case !i.Deadline.IsZero() && !i.Deadline.After(at):
		r.end(at, i, i.noticeWhy, true)
	case !i.runOver().IsZero() && !i.runOver().After(at):
		r.end(at, i, RunOver, false)
	case i.Deadline.IsZero() && !i.lifeOver.IsZero() && !i.lifeOver.After(at):
		r.notice(at, i, CapacityTaken)
	case i.Deadline.IsZero() && !i.crossing.IsZero() && !i.crossing.After(at):
		r.notice(at, i, PriceRise)
	default:
		i.State = Running
		r.emit(Boot{Instance: i.clone()})
	}
}

// runOver returns the end of the longest run permitted by the request; zero = no limit.
func (i *Instance) runOver() time.Time {
	if i.Terms.MaxRun == 0 {
		return time.Time{}
	}
	return i.Launched.Add(i.Terms.MaxRun)
}

// notice warns a machine that it will be reclaimed.
func (r *Region) notice(at time.Time, i *Instance, why Cause) {
	i.NoticedAt = at
	i.Deadline = at.Add(r.config.Notice + i.Terms.ExtraNotice)
	i.noticeWhy = why
	i.Request.Code, i.Request.Message, i.Request.UpdatedAt = "marked-for-termination", why.Marked, seconds(at)
}

// end ends a machine's billing and its process.
func (r *Region) end(at time.Time, i *Instance, why Cause, force bool) {
	booted := i.State == Running
	r.close(at, i, why)
	if !booted {
		i.State = Terminated
		return
	}
	i.State = ShuttingDown
	r.emit(Halt{ID: i.ID, Force: force})
}

// close writes the end into the instance and its request.
func (r *Region) close(at time.Time, i *Instance, why Cause) {
	i.Ended, i.Cause = seconds(at), why
	if r.config.Provider == GCE {
		i.Cause.Code = why.Operation
	}
	if i.Ended.Before(i.Launched) {
		i.Ended = i.Launched
	}
	if i.Request.ID != "" {
		if i.Request.State == "active" {
			i.Request.State = "closed"
		}
		i.Request.Code, i.Request.Message, i.Request.UpdatedAt = why.RequestCode, why.RequestMessage, i.Ended
	}
	ended := i.clone()
	ended.State = Terminated
	r.emit(Ended{Instance: ended})
	if i.Fleet != "" {
		r.retryBy(at)
	}
}

// Gone reports that the process of a machine has ended. A machine that was not being shut down has shut itself
// down.
func (r *Region) Gone(now time.Time, id string) {
	r.Advance(now)
	i, ok := r.instances[id]
	if !ok {
		return
	}
	if i.State == Running {
		r.close(r.now, i, SelfShutdown)
	}
	if i.State == Stopping {
		i.State = Stopped
		return
	}
	i.State = Terminated
}

// Change is the effect of TerminateInstances, StopInstances or StartInstances on one machine.
type Change struct {
	ID       string
	Previous State
	Current  State
}

// Terminate ends machines for their user. If one is unknown, none is ended.
func (r *Region) Terminate(now time.Time, ids []string) ([]Change, error) {
	r.Advance(now)
	var missing []string
	for _, id := range ids {
		if _, ok := r.instances[id]; !ok {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, NotFound(missing...)
	}
	for _, id := range ids {
		if i := r.instances[id]; i.Protected && i.State != Terminated {
			return nil, Errorf("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", id)
		}
	}
	changes := make([]Change, 0, len(ids))
	for _, id := range ids {
		i := r.instances[id]
		change := Change{ID: id, Previous: i.State}
		switch {
		case i.State.Alive():
			r.end(r.now, i, UserRequest, false)
		case i.State == Stopping: // no longer billed
			i.State = ShuttingDown
		case i.State == Stopped:
			i.State = Terminated
		}
		change.Current = i.State
		changes = append(changes, change)
	}
	return changes, nil
}

// TerminateAll ends every machine for its user, and everything that would buy others.
func (r *Region) TerminateAll(now time.Time) {
	r.Advance(now)
	for _, f := range r.fleets {
		f.State = "deleted_terminating"
	}
	for _, w := range r.waiting {
		if w.Request.State == "open" {
			w.Request.set(r.now, "cancelled", "canceled-before-fulfillment", "Your Spot request is canceled before it was fulfilled.")
		}
	}
	for _, i := range r.order {
		if i.State.Alive() {
			r.end(r.now, i, UserRequest, false)
		}
	}
}

// CancelRequests cancels spot requests. As on EC2, their instances keep running.
func (r *Region) CancelRequests(now time.Time, ids []string) ([]SpotRequest, error) {
	r.Advance(now)
	var found []*SpotRequest
	for _, id := range ids {
		request := r.byRequest(id)
		if request == nil {
			return nil, Errorf("InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '%s' does not exist", id)
		}
		found = append(found, request)
	}
	var requests []SpotRequest
	for _, request := range found {
		switch request.State {
		case "open":
			request.set(r.now, "cancelled", "canceled-before-fulfillment", "Your Spot request is canceled before it was fulfilled.")
		case "active":
			request.set(r.now, "cancelled", "request-canceled-and-instance-running",
				"Your Spot request is canceled, but your Spot instance is still running.")
		}
		requests = append(requests, *request)
	}
	return requests, nil
}

func (r *Region) byRequest(id string) *SpotRequest {
	for _, i := range r.order {
		if i.Request.ID == id && i.Pool.Class == market.Spot {
			return &i.Request
		}
	}
	for _, w := range r.waiting {
		if w.Request.ID == id {
			return &w.Request
		}
	}
	return nil
}

func (s *SpotRequest) set(at time.Time, state, code, message string) {
	s.State, s.Code, s.Message, s.UpdatedAt = state, code, message, seconds(at)
}

// seconds rounds every time of a machine's life down, which preserves their order.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
