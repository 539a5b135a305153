package fleet

import (
	"errors"
	"fmt"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/provisioner"
)

// takeLaunchFailed records that a launch returned no machine.
func (f *Fleet) takeLaunchFailed(e LaunchFailed) {
	l := f.buys.open[e.Token]
	if l == nil || l.answered {
		return
	}
	delete(f.buys.open, e.Token)
	f.buys.refused[e.Token] = l
	if l.again || e.Unsure || !provisioner.Definite(e.Err) {
		f.buys.unsure = f.Now
	}
	if l.tier == step.Reliable && l.pool == f.cfg.Reliable.Pool {
		f.Reliable.none = errors.Is(e.Err, provisioner.ErrNoCapacity) || errors.Is(e.Err, provisioner.ErrLimit) // a quota counts as capacity
	}
	f.refuse(l, l.count, e.Err.Error(), e.Refused)
	if errors.Is(e.Err, provisioner.ErrPriceTooLow) {
		f.gathering.refused(l.pool)
	}
	if f.Switching != nil && f.Switching.token == e.Token {
		f.Switching = nil
	}
	if l.tier == step.Reliable {
		f.Reliable.err = e.Err
		if errors.Is(e.Err, provisioner.ErrInvalid) && !l.again {
			f.Fail("no reliable machine is available: " + e.Err.Error())
		}
	}
	f.checkStrangers()
}

// takeLaunched records the machines of a launch.
func (f *Fleet) takeLaunched(e Launched) {
	l := f.buys.open[e.Token]
	switch {
	case l == nil && f.buys.refused[e.Token] == nil, l != nil && l.answered:
		return
	case l == nil: // it had been reported as failed
		for _, i := range e.Instances {
			f.adopt(f.buys.refused[e.Token], i)
		}
		return
	}
	l.answered = true
	f.Roster.letGo(l.instead)
	missing := l.count
	for _, i := range e.Instances {
		if f.Roster.ByID[step.ID(i.ID)] == nil && !f.Roster.settled(i.ID) { // otherwise the previous controller has recorded it, or it was listed
			missing--
		}
		f.enter(l, i)
	}
	if missing > 0 {
		why := fmt.Sprintf("the provider gave %d of %d", len(e.Instances), l.asked)
		if len(e.Refused) > 0 {
			why += ": " + provisioner.RefusalText(e.Refused)
		}
		f.refuse(l, missing, why, e.Refused)
	}
	f.closeLaunch(e.Token)
	f.checkStrangers()
}
