package jobmanager

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// Rights are those of tokens to the jobs of groups (access.Right). A job that a client may not see does not exist for it: it is in no list,
// and a call that names it gets the same answer as for an unknown name.

// demand refuses a call for which no group gives its client the right. Which jobs the client may see and change is checked job by job.
func demand(least access.Right, r *http.Request) error {
	if c := access.ClientOf(r.Context()); c.Highest() < least {
		return refuse(http.StatusForbidden, "this call needs the right %q of a group; this token has %s", least, c)
	}
	return nil
}

// seen returns the jobs that a client may see.
func seen(c access.Client, all []call.Job) []call.Job {
	return slices.DeleteFunc(all, func(j call.Job) bool { return c.Right(j.Group) < access.Watch })
}

// seesAll reports whether a client may see the totals of all groups.
func seesAll(c access.Client) bool { return c.Right(access.All) >= access.Watch }

// changes reports whether a client may change a job: because it may change all of the job's group, or submitted it.
func (m api) changes(c access.Client, run, group string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[run]
	return c.Right(group) >= access.Administer || c.Right(group) == access.Submit && j != nil && j.Client == c.ID()
}

// toChange is path for a call that changes the job.
func (m api) toChange(r *http.Request, by string) (call.Job, string, error) {
	j, dir, err := m.path(r)
	if err == nil {
		about(r, j.Run, j.Group, by)
	}
	if c := access.ClientOf(r.Context()); err == nil && !m.changes(c, j.Run, j.Group) {
		err = refuse(http.StatusForbidden, "changing %s needs the right %q of %s, or the token with which it was submitted; this token has %s",
			j.Run, access.Administer, groupText(j.Group), c)
	}
	return j, dir, err
}

// groupText names a group.
func groupText(group string) string {
	if group == "" {
		return "all groups, as the job is of none"
	}
	return "group " + group
}

// submitsTo returns the group of a job that a client submits: a client that may submit to only one group need not name it.
func submitsTo(c access.Client, named string) (group string, err error) {
	if may := c.Groups(access.Submit); named == "" && len(may) == 1 && may[0] != access.All {
		named = may[0]
	}
	if c.Right(named) >= access.Submit {
		return named, nil
	}
	if named == "" {
		return "", refuse(http.StatusForbidden, "a job without a group needs the right %q of all groups; this token has %s: write group: with one of these", access.Submit, c)
	}
	return "", refuse(http.StatusForbidden, "a job of group %s needs the right %q of that group; this token has %s", named, access.Submit, c)
}

// Replacements for others' jobs and limits in reasons.
const (
	anotherJob     = "another group's job"
	limitOfAllJobs = "a limit of the job server is reached"
)

var runInText = pattern.Of(`[A-Za-z0-9][A-Za-z0-9._-]*-[0-9]+`)

// unnamed replaces the names of jobs in a text whose groups are not visible, on a job server with tokens of groups. The lock must be held.
func (m *Manager) unnamed(text string, sees func(group string) bool) string {
	if m.cfg.Fences == nil {
		return text
	}
	return runInText().ReplaceAllStringFunc(text, func(id string) string {
		if j := m.jobs[id]; j != nil && !sees(j.Group) {
			return anotherJob
		}
		return id
	})
}

// toGroup returns a reason that concerns jobs of all groups, as a group may read it.
func (m *Manager) toGroup(group, why string) string {
	if why == "" || group == "" || m.cfg.Fences == nil {
		return why
	}
	return limitOfAllJobs
}

// pageRights returns what a client may see and change of the dashboard's runs.
func (m api) pageRights() func(r *http.Request, s dashboard.Summary) (sees, change bool) {
	return func(r *http.Request, s dashboard.Summary) (sees, change bool) {
		m.mu.Lock()
		if j := m.jobs[s.Run]; j != nil {
			s.Group = j.Group
		}
		m.mu.Unlock()
		if sees = access.ClientOf(r.Context()).Right(s.Group) >= access.Watch; sees {
			about(r, s.Run, s.Group, "")
		}
		c := access.ClientOf(r.Context())
		return sees, m.changes(c, s.Run, s.Group)
	}
}

// guardPages makes the dashboard's metrics, which cover all runs, require a right to all.
func guardPages(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := access.ClientOf(r.Context())
		if r.URL.Path == "/metrics" && !seesAll(c) {
			http.Error(w, fmt.Sprintf("metrics are those of all jobs: they need the right %q of all groups; this token has %s", access.Watch, c), http.StatusForbidden)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
