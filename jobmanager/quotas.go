package jobmanager

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
)

// Quota limits what the jobs of a group have at a time; 0 = no limit. What they have follows from their records alone.
type Quota struct {
	Jobs     int // with a run, including paused ones
	Machines int // reliable and transient ones, as many as the jobs' files allow
	PerHour  market.USD
}

// String formats the quota as in the file; empty = none.
func (q Quota) String() string {
	var all []string
	if q.Jobs > 0 {
		all = append(all, fmt.Sprintf("jobs: %d", q.Jobs))
	}
	if q.Machines > 0 {
		all = append(all, fmt.Sprintf("machines: %d", q.Machines))
	}
	if q.PerHour > 0 {
		all = append(all, "per_hour: $"+q.PerHour.String())
	}
	return strings.Join(all, ", ")
}

// mostOf returns a job's maximum number of machines at a time, by its file.
func mostOf(job *config.Job) int { return job.Resources.Count.Most + job.Reliable.Count }

// uses reports whether a job counts in its group's quota: it has a run or a grant, or its run was killed and may have left machines.
func (j *job) uses() bool {
	return !j.Hosts && !j.State.Over() && (j.tended || !j.Again && (j.Starts > 0 || j.Granted > 0))
}

// machines returns a job's maximum number of machines, by its file.
func (j *job) machines() int {
	if j.most == nil {
		most := 0
		if file, err := config.Load(filepath.Join(j.dir, submittedFile)); err == nil { // otherwise its run reports the problem
			most = mostOf(file)
		}
		j.most = &most
	}
	return *j.most
}

// overQuota returns why a job is not started: the quota of its group is used up by jobs that have a run, or by earlier waiting ones. Empty:
// it is not. The lock must be held.
func (m bounds) overQuota(j *job) string {
	q, bounded := m.cfg.Quotas[j.Group]
	if !bounded || j.Hosts || j.State != call.Queued || j.uses() {
		return ""
	}
	jobs, machines := 0, 0
	for _, o := range m.jobs {
		if o.Group == j.Group && (o.uses() || o.State == call.Queued && o.Number < j.Number && !o.Hosts) {
			jobs++
			machines += o.machines()
		}
	}
	switch {
	case q.Jobs > 0 && jobs >= q.Jobs:
		return fmt.Sprintf("waits for the quota of group %s (jobs: %d)", j.Group, q.Jobs)
	case q.Machines > 0 && machines+j.machines() > q.Machines:
		return fmt.Sprintf("waits for the quota of group %s (machines: %d): earlier jobs may have %d, and this one %d",
			j.Group, q.Machines, machines, j.machines())
	}
	return ""
}

// fitsQuota refuses a job for which the quota of its group never has room.
func fitsQuota(q Quota, group string, job *config.Job) error {
	if q.Machines == 0 {
		return nil
	}
	if job.Resources.VCPU > 0 {
		return refuse(http.StatusUnprocessableEntity, "resources.vcpu: group %s has a quota of machines: write count, such as count: 1..4", group)
	}
	if planner.SizesReliable(job) && !job.Written("reliable.count") {
		return refuse(http.StatusUnprocessableEntity, "reliable.count: group %s has a quota of machines, and the plan would choose the number: write one, such as reliable: {count: 1}", group)
	}
	if most := mostOf(job); most > q.Machines {
		return refuse(http.StatusUnprocessableEntity, "resources.count: %d machines, with the %d of reliable.count, are more than the quota of group %s, %d", most, job.Reliable.Count, group, q.Machines)
	}
	return nil
}

// gate refuses a change of a running job's machines that the scheduler has not granted, or that a budget or a group's price per hour
// forbids. The job's run refuses what exceeds its file (elasticity.Bounds): only the run knows what it wants at that moment.
//
// Invariant: the jobs of a group together may not want more than they were admitted with (overQuota).
func (m bounds) gate(run string, c call.Scale) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[run]
	if j == nil {
		return nil
	}
	adds := c.Workers > 0 || c.Servers > 0 || c.Reliable > 0
	numbers := adds || c.Workers < 0 || c.Servers < 0 || c.Reliable < 0
	over := m.heldBy(j)
	switch {
	case m.scheduler != nil && m.scheduler.shares(j) && (numbers || c.Restore):
		return refuse(http.StatusForbidden, "the scheduler grants %s its machines, and no call changes their number (`tierml why %[1]s`): pause it, or submit it with another "+
			"resources.count", run)
	case over != "" && (adds || c.Restore || c.Resume):
		return refuse(http.StatusForbidden, "%s is given no more machines: %s", run, over)
	}
	return nil
}
