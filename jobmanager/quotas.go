package jobmanager

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager/call"
)

// Quota is the most that the jobs of a group have at a time; 0 = no bound. What they have follows from their records alone.
type Quota struct {
	Jobs     int // with a run, paused ones included
	Machines int // transient ones, as many as the jobs' files allow
}

// String is the quota in the words of the file; empty = there is none.
func (q Quota) String() string {
	var all []string
	if q.Jobs > 0 {
		all = append(all, fmt.Sprintf("jobs: %d", q.Jobs))
	}
	if q.Machines > 0 {
		all = append(all, fmt.Sprintf("machines: %d", q.Machines))
	}
	return strings.Join(all, ", ")
}

// uses reports whether a job counts in its group's quota: it has a run or a grant, or its run was killed and may have left machines.
func (j *job) uses() bool {
	return !j.Hosts && !j.State.Over() && (j.tended || !j.Again && (j.Starts > 0 || j.Granted > 0))
}

// machines is the most transient machines that a job may have, as its file says.
func (j *job) machines() int {
	if j.most == nil {
		most := 0
		if file, err := config.Load(filepath.Join(j.dir, submittedFile)); err == nil { // else its run says what is wrong
			most = file.Resources.Count.Most
		}
		j.most = &most
	}
	return *j.most
}

// overQuota is why a job is not started: the quota of its group is used up by jobs that have a run, or that wait and came before it. Empty: it is
// not. It needs the lock.
func overQuota(m *Manager, j *job) string {
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

// fitsQuota refuses a job that the quota of its group never has room for.
func fitsQuota(q Quota, group string, job *config.Job) error {
	if q.Machines == 0 {
		return nil
	}
	if job.Resources.VCPU > 0 {
		return refuse(http.StatusUnprocessableEntity, "resources.vcpu: group %s has a quota of machines: write count, such as count: 1..4", group)
	}
	if most := job.Resources.Count.Most; most > q.Machines {
		return refuse(http.StatusUnprocessableEntity, "resources.count: %d machines are more than the quota of group %s, %d: write %[3]d or less", most, group, q.Machines)
	}
	return nil
}

// addsBeyond refuses more workers than a job's file says where its group has a quota of machines.
func addsBeyond(m *Manager, group string, workers int32) error {
	if m.cfg.Quotas[group].Machines > 0 && workers > 0 {
		return refuse(http.StatusForbidden, "group %s has a quota of machines, and a job counts with the most that its file allows: it can be given fewer workers, "+
			"or its own number again (--restore), but not more", group)
	}
	return nil
}
