package jobmanager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/watch/alert"
)

// HostExit is the exit code of a run that ended because its host was at fault, or a store or cloud did not answer, through no fault of the
// job.
const HostExit = 75

// hostPatience is how long a job waits for a host, a store or a cloud that keeps its run from making progress.
const hostPatience = 24 * time.Hour

// probeBytes are written and read to check whether the disk works: as many as a run writes before its first clock.
const probeBytes = 1 << 20

// health is the state of the host. While it is ill the queue waits, and no end of a run is attributed to its job.
//
// Invariant: a start that failed because of the host does not count (record.Fruitless), but its time does (record.HostSince). A record that
// could not be written is written once the host is well.
type health struct {
	ill   string // why; empty = it is well
	again time.Time
}

// probe returns what keeps this host from running jobs; empty = nothing. It writes where runs do.
func probe(dir string) string {
	err := writeProbe(dir)
	if err == nil {
		return ""
	}
	if why := hostfault.Of(err); why != "" {
		return why
	}
	return err.Error()
}

func writeProbe(dir string) (err error) {
	file, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	_, err = file.Write(make([]byte, probeBytes))
	return errors.Join(err, file.Sync())
}

// examine checks the host, and reports when it falls ill and when it recovers. The lock must be held.
func (m *Manager) examine() (ill string) {
	why := probe(m.root)
	m.health.again = time.Now().Add(lookAgain)
	if (why == "") == (m.health.ill == "") {
		m.health.ill = why
		return why
	}
	m.health.ill = why
	now := m.cfg.Now().UTC()
	if why != "" {
		m.cfg.Log.Error("this host cannot run jobs: the queue waits", "why", why)
		m.cfg.Notifier.Notify(alert.Alert{Kind: alert.Host, Run: "server", Why: why + ": the queue waits", At: now})
		return why
	}
	m.cfg.Log.Warn("this host can run jobs again")
	m.cfg.Notifier.Notify(alert.Alert{Kind: alert.Host, Run: "server", Why: "it can run jobs again", At: now})
	for _, j := range m.inOrder() {
		if j.unsaved {
			_ = m.save(j) // or at its next change
		}
	}
	return ""
}

// blame attributes the end of a run: to the host, in which case the start does not count, or to its job (empty). The lock must be held.
func (m *Manager) blame(j *job, e ending) (host string) {
	host = e.host
	if ill := m.examine(); ill != "" {
		host = ill
	}
	switch {
	case host == "" && e.counted:
		j.HostSince, j.HostFaults = nil, 0
	case host != "" && e.counted:
		j.Fruitless = max(j.Fruitless-1, 0)
		j.HostFaults++
	}
	if host != "" && j.HostSince == nil {
		now := m.cfg.Now()
		j.HostSince = &now
		m.cfg.Log.Warn("a job waits for its host, a store or a cloud", "job", j.ID, "why", host)
		if m.health.ill == "" { // otherwise all get the host's fault
			m.cfg.Notifier.Notify(alert.Alert{Kind: alert.Host, Run: j.ID, Why: host + ": the job waits", At: now.UTC(), Clock: j.Clock})
		}
	}
	return host
}

// outlasted reports whether a job's host has been at fault for longer than a job waits.
func (j *job) outlasted(now time.Time) bool {
	return j.HostSince != nil && now.Sub(*j.HostSince) > hostPatience
}

// waitsForHost returns why the queue waits; empty = it does not. The lock must be held.
func (m *Manager) waitsForHost() string {
	if m.health.ill != "" && !time.Now().Before(m.health.again) {
		m.examine()
	}
	if m.health.ill == "" {
		return ""
	}
	return "waits for the job server's host: " + m.health.ill
}

// hostOf returns the fault of the host in a run's exit code and last output; empty = none.
func (j *job) hostOf(l *runProcess, code int) string {
	if code != HostExit {
		return ""
	}
	said := lastLines(outputFrom(filepath.Join(j.dir, rundir.LogsDir, outputFile), l.from))
	if why := hostfault.In(said); why != "" {
		return why
	}
	if said == "" {
		return "the host is at fault"
	}
	return fmt.Sprintf("no fault of the job's: %s", said)
}
