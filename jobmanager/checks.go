package jobmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/sched"
)

// Setup says how a job server with a scheduler will be started, for doctor: see Config and the flags of tierml server.
type Setup struct {
	Scheduler string
	Hosts     string // a file
	Slots     int
	Groups    string // a file; empty = there are none
	TokenFile string
}

// examined is what the first checks of a Setup found, for those that follow.
type examined struct {
	Setup
	policy  sched.Policy
	supply  supply
	offered offered
	groups  map[string]Group
}

// schedulerCheck is the check that the others need.
const schedulerCheck = "scheduler"

// Checks examine what a scheduler needs, and whether it can ever start a job; nil = no job will be submitted.
func (s Setup) Checks(job *config.Job) []doctor.Check {
	x := &examined{Setup: s}
	needs := func(name string, look func() (string, error)) doctor.Check {
		return doctor.Check{Name: name, Needs: schedulerCheck, Look: func(context.Context) (string, error) { return look() }}
	}
	checks := []doctor.Check{{Name: schedulerCheck, Look: func(context.Context) (string, error) { return x.machines() }},
		needs("scheduler's prices", x.prices), needs("token", x.token)}
	if s.Groups != "" {
		checks = append(checks, needs("groups", x.readGroups))
	}
	if job != nil && !job.IsHosts() {
		checks = append(checks, needs("job's machines", func() (string, error) { return x.startable(job) }),
			needs("job's group", func() (string, error) { return x.groupOf(job) }))
		if len(job.Feedback) > 0 || job.TrialsOfParams() != nil {
			checks = append(checks, needs("job's feedback", x.feedback))
		}
	}
	return checks
}

func (x *examined) machines() (found string, err error) {
	if x.policy, err = sched.ByName(x.Scheduler); err != nil {
		return "", doctor.Wrong("docs/scheduler.md says what each is for", "%v", err)
	}
	switch {
	case x.Slots > 0 && x.Hosts != "":
		return "", doctor.Wrong("leave one of the two out", "jobs share either the machines of --hosts or --slots machines of their own")
	case x.Slots > 0:
		x.offered.machines = x.Slots
	case x.Hosts == "":
		return "", doctor.Wrong("name shared machines with --hosts, or say with --slots how many machines of their own all jobs have", "there is nothing to share")
	default:
		if x.supply, x.offered, err = supplyOf(x.Hosts); err != nil {
			return "", doctor.Wrong("tierml doctor "+x.Hosts+" looks at the file of shared machines", "%v", err)
		}
		if x.offered.hosts < 1 || x.offered.least[0] < 1 {
			return "", doctor.Wrong("write resources.count: 4, or more resources.vcpu, in "+x.Hosts, "there may be no transient machine to share")
		}
	}
	return fmt.Sprintf("%s shares %s", x.policy.Name(), x.offered), nil
}

// prices reports whether any prices are known, if the policy uses them.
func (x *examined) prices() (string, error) {
	if !sched.Priced(x.policy) {
		return x.policy.Name() + " looks at no prices", nil
	}
	if x.Slots > 0 {
		return "", doctor.Warn("share machines with --hosts, or write --scheduler feedback:unpriced",
			"the prices of jobs' own machines are not known to %s: it decides by early feedback alone", x.policy.Name())
	}
	spot := 0
	for _, p := range x.supply.costs.pools {
		if !p.OnDemand() {
			spot++
		}
	}
	if spot == 0 {
		return "", doctor.Warn("name spot prices in "+x.Hosts, "none of the pools of %s has a price that changes", x.Hosts)
	}
	return fmt.Sprintf("%s buys by the prices of %d pools", x.policy.Name(), spot), nil
}

func (x *examined) token() (string, error) {
	switch _, err := access.Read(x.TokenFile); {
	case err == nil:
		return x.TokenFile + " has the job server's token", nil
	case errors.Is(err, fs.ErrNotExist):
		return "the job server makes one at its start, in " + x.TokenFile, nil
	default:
		return "", doctor.Wrong("mend the file, or remove it: the job server makes another", "%v", err)
	}
}

// readGroups also looks for tokens that two groups share, and quotas that exceed the total.
func (x *examined) readGroups() (string, error) {
	var err error
	if x.groups, err = ReadGroups(x.Groups); err != nil {
		return "", doctor.Wrong("docs/server.md#groups has an example", "%v", err)
	}
	if err := groupsApart(x.offered.cloud); err != nil {
		return "", doctor.Wrong("without --hosts jobs have pods of their own", "%v", err)
	}
	tokens := map[access.Sum]string{}
	for _, name := range slices.Sorted(maps.Keys(x.groups)) {
		g := x.groups[name]
		for _, sums := range g.Tokens { // any order: each is independent
			for _, sum := range sums {
				if other := tokens[sum]; other != "" && other != name {
					return "", doctor.Warn("make a token for each group", "groups %s and %s have a token in common", other, name)
				}
				tokens[sum] = name
			}
		}
		if most := x.offered.workers(); name != access.All && g.Quota.Machines > most {
			return "", doctor.Warn(fmt.Sprintf("write quota: {machines: %d} or less", most), "group %s has a quota of %d machines, and there are never more than %d", name, g.Quota.Machines, most)
		}
	}
	return fmt.Sprintf("%d groups with %d tokens", len(x.groups), len(tokens)), nil
}

// startable says with how many workers at most a job starts, or why it never does.
func (x *examined) startable(job *config.Job) (string, error) {
	switch {
	case job.Cloud == config.CloudNone:
		return "", doctor.Wrong("train it with tierml train", "cloud: none buys no machines")
	case !x.offered.concerns(job):
		return "", doctor.Warn("write cloud: "+x.offered.cloud+" for slots of the shared machines", "cloud: %s has machines of its own, which the scheduler does not grant", job.Cloud)
	}
	if err := x.offered.refuses(job); err != nil {
		return "", doctor.Wrong("or let there be more machines", "%v", err)
	}
	a := x.offered.asked(job)
	room := x.offered.room(a.Unit)
	if a.Most > room {
		return "", doctor.Warn(fmt.Sprintf("write resources.count: %d..%d, or let there be more machines", a.Least, room), "it may have up to %d workers, and there are never more than %d", a.Most, room)
	}
	return fmt.Sprintf("%d to %d workers of the %d that there may be", a.Least, a.Most, room), nil
}

func (x *examined) groupOf(job *config.Job) (string, error) {
	g, known := x.groups[job.Group]
	switch {
	case job.Group == "":
		return "none: it shares with all others that name none", nil
	case !known && x.Groups != "":
		return "", doctor.Warn("add it to "+x.Groups, "group %s is not in %s: it has no tokens, quota and budget there", job.Group, x.Groups)
	case !known:
		return job.Group, nil
	}
	if err := fitsQuota(g.Quota, job.Group, job); err != nil {
		return "", doctor.Wrong("or raise the quota in "+x.Groups, "%v", err)
	}
	if err := g.Fence.refuses(job.Group, job); err != nil {
		return "", doctor.Wrong("or change the fence in "+x.Groups, "%v", err)
	}
	return fmt.Sprintf("%s: %s", job.Group, cmp.Or(g.Quota.String(), "no quota")), nil
}

// feedback reports whether a scheduler uses it.
func (x *examined) feedback() (string, error) {
	if !sched.StopsTrials(x.policy) {
		return "", doctor.Warn("write --scheduler feedback, h or asha", "%s looks at no early feedback: every trial trains to its end", x.policy.Name())
	}
	return x.policy.Name() + " stops or pauses the worst trials", nil
}
