package jobmanager

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
)

// planned names a job that is not submitted, in decisions about it: no job's name has a space.
const planned = "this job"

// outlook returns when a job would start if it were submitted now. Jobs that the client may not watch are not named.
func (m api) outlook(r *http.Request, job *config.Job) (call.Outlook, error) {
	client := access.ClientOf(r.Context())
	sees := func(group string) bool { return client.Right(group) >= access.Watch }
	m.mu.Lock()
	defer m.mu.Unlock()
	o, err := m.foresee(job)
	for _, one := range append([]*grants.Outlook{&o.Outlook, o.Fewer}, pointers(o.Else)...) {
		if one == nil {
			continue
		}
		one.Why = m.unnamed(one.Why, sees)
		for i, id := range one.Ends {
			one.Ends[i] = m.unnamed(id, sees)
		}
	}
	return o, err
}

func pointers(all []grants.Outlook) (to []*grants.Outlook) {
	for i := range all {
		to = append(to, &all[i])
	}
	return to
}

// foresee decides about a job that is not submitted, with the code that will decide when it is. The lock must be held.
func (m api) foresee(file *config.Job) (o call.Outlook, err error) {
	most := mostOf(file)
	j := &job{record: record{ID: planned, Number: m.number + 1, Submitted: m.cfg.Now(), State: call.Queued, Group: file.Group}, most: &most}
	if why := cmp.Or(bounds(m).heldBy(j), bounds(m).overQuota(j)); why != "" {
		o.Policy, o.Why = "limits", why
		return o, nil
	}
	if s := m.scheduler; s != nil && (s.offered.machines > 0 || file.Cloud == config.CloudLocal) {
		return s.foresee(j, file)
	}
	before := 0
	for _, other := range m.jobs {
		if !other.Hosts && !other.State.Over() {
			before++
		}
	}
	o.Policy, o.Starts = "first come, first served", before < m.cfg.MaxRunning
	if o.Why = fmt.Sprintf("%d jobs are before it, and %d run at a time (--max-running)", before, m.cfg.MaxRunning); o.Starts {
		o.Workers = file.Resources.Count.Most
	}
	return o, nil
}

// foresee is for a job that shares slots.
func (s *scheduler) foresee(j *job, file *config.Job) (o call.Outlook, err error) {
	before := s.others
	claims, most, err := s.claims()
	others := s.others
	s.others = before
	if err != nil {
		return o, err
	}
	slots, err := s.shared(claims)
	if err != nil {
		return o, err
	}
	now := s.m.cfg.Now()
	of := grants.Claim{ID: j.ID, Arrived: j.arrived(), Asked: s.offered.asked(file), Told: -1}
	if s.market != nil && !file.Deadline.IsZero() {
		of.Deadline = float64(s.market.WallAt(file.Deadline).UnixMilli()) / 1000
	}
	with := func(p sched.Policy, of grants.Claim) grants.Outlook {
		return grants.Foresee(p, now, slots, claims, most, others, s.last, of)
	}
	o.Outlook = with(s.policy, of)
	if usd, sold := slots.Market.Cheapest(sched.Transient); sold {
		o.PerHour = usd * of.Unit[0] * float64(o.Workers)
	}
	if of.Least > 1 && !of.Fixed && (o.Wait > 0 || !o.Starts) {
		from1 := of
		from1.Least = 1
		if fewer := with(s.policy, from1); fewer.Sooner(o.Outlook) < 0 {
			o.Fewer = &fewer
		}
	}
	for _, name := range Schedulers {
		if p, err := sched.ByName(name); err == nil && name != s.policy.Name() {
			o.Else = append(o.Else, with(p, of))
		}
	}
	slices.SortFunc(o.Else, grants.Outlook.Sooner)
	return o, nil
}
