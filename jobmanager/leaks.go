package jobmanager

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/config"
)

// endExpiredMachines ends leaks every ten minutes: machines past their lease, in the clusters that jobs here have used. The first time is
// late enough for runs that have just been restarted to renew their leases.
func (m *Manager) endExpiredMachines(ctx context.Context) {
	if m.cfg.EndExpiredMachines == nil {
		return
	}
	clusters := map[string]cluster{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(endExpiredEvery):
		}
		m.endLeaks(ctx, clusters)
	}
}

// endLeaks checks all clusters once. Known caches the cluster of each job file.
func (m *Manager) endLeaks(ctx context.Context, known map[string]cluster) {
	done := map[cluster]bool{{}: true}
	for _, file := range m.submittedFiles() {
		c, read := known[file]
		if !read {
			c = clusterOf(file)
			known[file] = c
		}
		if done[c] {
			continue
		}
		done[c] = true
		if err := m.cfg.EndExpiredMachines(ctx, file); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn("machines past their lease could not be ended", "cluster", c.name, "err", err)
		}
	}
}

const endExpiredEvery = 10 * time.Minute

// submittedFiles returns the files of all jobs, the newest first.
func (m *Manager) submittedFiles() (files []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.inOrder() {
		files = append([]string{filepath.Join(j.dir, submittedFile)}, files...)
	}
	return files
}

// cluster identifies a cluster. None is the zero value.
type cluster struct{ cloud, project, region, name, endpoint string }

func clusterOf(file string) cluster {
	job, err := config.Load(file)
	if err != nil {
		return cluster{} // it cannot buy anything either
	}
	at := job.Installation()
	if at == nil {
		return cluster{}
	}
	return cluster{job.Cloud, at.Project, at.Region, at.Cluster, at.Endpoint}
}
