package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/provisioner"
)

const (
	// toldAfter is how long calls of a kind must fail before the run reports it. With the interval of listings it must stay below half a
	// minute.
	toldAfter = 15 * time.Second
	// leaveAfter is how long a stopping run waits for a provider whose calls fail, before it leaves its machines.
	leaveAfter = 5 * time.Second
	lookEvery  = time.Second
)

// Left is the error of a run that should stop and could not end its machines, as the provider refused or did not answer. They still cost
// money; another controller of the run can take them over.
type Left struct {
	Machines []provisioner.Instance // live in the last listing
	Err      error                  // of the newest call that failed
	Command  string                 // which ends the machines; empty = there is none
}

func (l *Left) Error() string {
	text := "the run's machines could not be ended: " + l.Err.Error() + cost(l.Machines)
	if l.Command != "" {
		text += ". To end them: " + l.Command
	}
	return text
}

func (l *Left) Unwrap() error { return l.Err }

// cost lists the machines that still cost money.
func cost(machines []provisioner.Instance) string {
	if len(machines) == 0 {
		return ""
	}
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = string(m.ID)
	}
	return fmt.Sprintf("; still paid for: %s", strings.Join(names, ", "))
}

// The kinds of calls whose answers are tracked. Each has its own permissions, so one may be refused while another works.
const (
	listing     = "listing machines"
	terminating = "ending machines"
	launching   = "buying machines"
	renewing    = "renewing leases"
	pricing     = "asking for prices"
)

// answers tracks whether the provider answers, for each kind of call.
type answers struct {
	mu       sync.Mutex
	failing  map[string]failing
	asked    time.Time // of the newest listing, if it is unanswered; zero = it is not
	machines []provisioner.Instance
	told     bool
	command  func([]provisioner.Instance) string // which ends machines; nil = there is none
	stop     time.Time                           // when a stop was requested; zero = never
	left     *Left
}

// failing is a kind of call without success since a time.
type failing struct {
	since time.Time
	err   error
}

// took records a call that began at a time, and its outcome.
func (a *answers) took(kind string, began time.Time, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.failing, kind)
		return
	}
	f, before := a.failing[kind]
	if !before {
		f.since = began
	}
	f.err = err
	a.failing[kind] = f
}

// await records that a listing awaits its answer, unless one already does.
func (a *answers) await(began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked.IsZero() {
		a.asked = began
	}
}

// listed records the answer to a listing that began at a time.
func (a *answers) listed(all []provisioner.Instance, began time.Time, err error) {
	a.mu.Lock()
	a.asked = time.Time{}
	if err == nil {
		a.machines = slices.DeleteFunc(slices.Clone(all), func(i provisioner.Instance) bool { return i.State == provisioner.Terminated })
	}
	a.mu.Unlock()
	a.took(listing, began, err)
}

var errNoAnswer = fmt.Errorf("%s: %w: no answer", listing, provisioner.ErrTemporary)

// worst returns the kinds of failing calls, in order of importance, with when the first began to fail. The lock must be held.
func (a *answers) worst(kinds ...string) (worst failing) {
	for _, kind := range kinds {
		f, ok := a.failing[kind]
		if kind == listing && !ok && !a.asked.IsZero() {
			f, ok = failing{a.asked, errNoAnswer}, true
		}
		switch {
		case !ok:
		case worst.err == nil:
			worst = f
		case f.since.Before(worst.since):
			worst.since = f.since
		}
	}
	return worst
}

// look returns what the controller must be told at a time; nil = nothing.
func (a *answers) look(now time.Time) elasticity.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.worst(terminating, listing); f.err != nil && !a.stop.IsZero() && a.left == nil && now.Sub(a.stop) >= leaveAfter && now.Sub(f.since) >= leaveAfter {
		a.left = &Left{Machines: a.machines, Err: f.err}
		if a.command != nil && len(a.machines) > 0 {
			a.left.Command = a.command(a.machines)
		}
		return elasticity.ProviderChanged{To: journal.GivenUp, Why: a.left.Error()}
	}
	f := a.worst(terminating, listing, launching, renewing, pricing)
	switch {
	case !a.told && f.err != nil && now.Sub(f.since) >= toldAfter:
		a.told = true
		return elasticity.ProviderChanged{To: journal.Waiting, Why: f.err.Error() + cost(a.machines)}
	case a.told && f.err == nil:
		a.told = false
		return elasticity.ProviderChanged{To: journal.Heard}
	}
	return nil
}

// stops records that the run should stop.
func (a *answers) stops(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop.IsZero() {
		a.stop = now
	}
}

// gone returns the error of a run that leaves its machines; nil = it does not.
func (a *answers) gone() *Left {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// leaves reports whether an event is that the run leaves its machines.
func leaves(e elasticity.Event) bool {
	change, ok := e.(elasticity.ProviderChanged)
	return ok && change.To == journal.GivenUp
}

// watchAnswers reports to the controller when the provider begins to fail, and when it answers again.
func (r *Runner) watchAnswers(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if e := r.answers.look(time.Now()); e != nil {
			r.handle(ctx, e)
		}
	}
}

// spread randomises a duration around d, so that clients that failed together do not retry together.
func spread(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }
