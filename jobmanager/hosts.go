package jobmanager

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/jobmanager/call"
)

// Shared hosts are a run like a job's: started, found, resumed and stopped by the same rules. Only the command differs, they have no place
// in the queue, and jobs wait until they accept requests.

// keepHosts finds the shared hosts of an earlier manager, or enters those of Config.Hosts.
func (m *Manager) keepHosts() error {
	for _, j := range m.inOrder() {
		if j.Hosts && !j.State.Over() {
			m.hosts = j
		}
	}
	if m.hosts != nil {
		if _, err := m.keptApart(filepath.Join(m.hosts.dir, submittedFile)); err != nil {
			return err
		}
	}
	if m.cfg.Hosts == "" {
		return nil
	}
	file, err := m.keptApart(m.cfg.Hosts)
	if err != nil {
		return err
	}
	text := file.Resolved()
	if m.hosts == nil {
		m.hosts, err = m.enter(file.Name, text, nil, record{Hosts: true})
		return err
	}
	if before, err := os.ReadFile(filepath.Join(m.hosts.dir, submittedFile)); err != nil || !bytes.Equal(before, text) {
		m.cfg.Log.Warn("shared hosts keep the settings they were started with; to change them, stop them and restart the job server", "hosts", m.hosts.ID, "file", m.cfg.Hosts)
	}
	return nil
}

// groupsApart refuses groups on hosts of a cloud where all slots of a host are processes of one user, who can read the files of all.
func groupsApart(cloud string) error {
	if p, known := config.ProviderNamed(cloud); known && p.OneUser {
		return fmt.Errorf("groups would not be kept apart on shared hosts: on %s all slots of a host are processes of one user. Leave --hosts or --groups out", p.Title)
	}
	return nil
}

// keptApart refuses groups that hosts of a file cannot keep apart.
func (m *Manager) keptApart(path string) (*config.Job, error) {
	file, err := config.LoadHosts(path)
	if err == nil && len(m.cfg.Fences) > 0 {
		err = groupsApart(file.Cloud)
	}
	return file, err
}

// giveSlots decides whether a new job's machines are slots of the shared hosts, which are for jobs of the same cloud. Or all jobs' own
// machines count. The lock must be held.
func (m *Manager) giveSlots(j *job) {
	if j.Counted = m.cfg.Slots > 0 && !j.Hosts; m.hosts == nil || j.Hosts {
		return
	}
	file, err := config.Load(filepath.Join(j.dir, submittedFile))
	hosts, hostsErr := config.LoadHosts(filepath.Join(m.hosts.dir, submittedFile))
	j.Slots = err == nil && hostsErr == nil && file.Cloud == hosts.Cloud // an unreadable file is refused by its run
}

// lacksHosts returns why a job's slots cannot be requested yet; empty = they can. The lock must be held.
func (m *Manager) lacksHosts(j *job) string {
	if !j.Slots {
		return ""
	}
	if m.hosts == nil {
		return "the shared hosts have ended; start the job server with --hosts to start others"
	}
	switch _, err := os.Stat(filepath.Join(m.hosts.dir, desk.DoorFile)); {
	case m.hosts.State.Over():
		return fmt.Sprintf("the shared hosts, %s, have ended (%s); restart the job server to start others", m.hosts.ID, m.hosts.Why)
	case err != nil || m.hosts.State != call.Running:
		return fmt.Sprintf("the shared hosts, %s, are being started", m.hosts.ID)
	}
	return ""
}
