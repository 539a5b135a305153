package jobmanager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
)

// The token grants only the right to run jobs: not to read this host's files, fill its disk or use up its memory.

// accept reads a submission and returns the job, its file with uploaded files in place, its secrets, and the submitter.
func (m *Manager) accept(w http.ResponseWriter, r *http.Request) (_ *config.Job, _ []byte, secrets map[string]string, user string, _ error) {
	var s call.Submission
	if err := errors.Join(read(w, r, &s), who(s.User)); err != nil {
		return nil, nil, nil, "", err
	}
	job, text, err := m.judgeJob(m.inputs.spaceOf(r), s.Job)
	if err != nil {
		return nil, nil, nil, "", err
	}
	group, err := submitsTo(access.ClientOf(r.Context()), job.Group)
	if err == nil {
		err = fitsQuota(m.cfg.Quotas[group], group, job)
	}
	if fence, known := m.cfg.Fences[group]; known && err == nil {
		err = fence.refuses(group, job)
	}
	if err != nil {
		return nil, nil, nil, "", err
	}
	if group != job.Group {
		job.Group = group
		text = job.Resolved()
	}
	for _, name := range slices.Sorted(maps.Keys(job.Secrets)) {
		if s.Secrets[name] == "" {
			return nil, nil, nil, "", refuse(http.StatusUnprocessableEntity, "secrets.%s: its value did not come with the job: submit it by `tierml run`", name)
		}
	}
	for name := range s.Secrets {
		if _, ok := job.Secrets[name]; !ok {
			return nil, nil, nil, "", refuse(http.StatusUnprocessableEntity, "the job has no secret %q", name)
		}
	}
	return job, text, s.Secrets, s.User, nil
}

// judgeJob checks the text of a job, which may name files of its client's space.
func (m *Manager) judgeJob(of space, submitted string) (*config.Job, []byte, error) {
	text, folders, err := of.inPlace([]byte(submitted))
	if err != nil {
		return nil, nil, err
	}
	folder, err := m.inputs.scratch()
	if err != nil {
		return nil, nil, fmt.Errorf("checking a job: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, submittedFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, nil, fmt.Errorf("checking a job: %w", err)
	}
	job, err := m.inputs.load(path, folders)
	if err != nil {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "%s", m.inputs.outOfPlace(strings.NewReplacer(path+":", "", folder+"/", "").Replace(err.Error())))
	}
	if job.Cloud == config.CloudNone {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "cloud: none buys no machines: train it in your own process with `tierml train`")
	}
	if err := m.scheduler.refuses(job); err != nil {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "%w", err)
	}
	// What runs is what was checked, and nothing of the text: no reference to an environment, each place in its canonical form.
	return job, job.Resolved(), nil
}

// planWithin is how long a plan may take: it reads all data once.
const planWithin = 10 * time.Minute

// servePlan makes the plan in a process of its own, with this host's files, credentials and prices, and adds when the job would start.
func (m api) servePlan(w http.ResponseWriter, r *http.Request) error {
	job, text, secrets, _, err := m.accept(w, r)
	if err != nil {
		return err
	}
	if r.URL.Query().Get("outlook") == "only" {
		found, err := m.outlook(r, job)
		if err == nil {
			answer(w, http.StatusOK, found)
		}
		return err
	}
	folder, err := m.inputs.scratch()
	if err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, submittedFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	done, err := m.planning(r)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), planWithin)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, m.cfg.Command[0], append(m.cfg.Command[1:len(m.cfg.Command):len(m.cfg.Command)], "plan", path)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := keepSecrets(folder, secrets); err != nil {
		return err
	}
	cmd.Env = []string{jobrun.SecretsVariable + "=" + folder, InputsVariable + "=" + m.inputs.dir}
	if err := m.spawn(cmd); err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		if coded, ok := errors.AsType[*exec.ExitError](err); ok && coded.ExitCode() > 0 {
			if why := crash(problems.String(), m.cfg.JobMemory); why != "" {
				return refuse(http.StatusUnprocessableEntity, "planning failed: %s", why)
			}
			return refuse(http.StatusUnprocessableEntity, "%s", m.inputs.outOfPlace(strings.TrimSpace(strings.NewReplacer(path+":", "", folder+"/", "").Replace(problems.String()))))
		}
		return fmt.Errorf("planning: %w", err)
	}
	found, err := m.outlook(r, job)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, m.inputs.outOfPlace(out.String()+problems.String())) // the client may have disconnected
	return found.WriteText(w)
}

// plansAtOnce bounds the processes that plan: each may read all data of a job.
const plansAtOnce = 2

// planning waits for a plan's turn.
func (m *Manager) planning(r *http.Request) (done func(), err error) {
	select {
	case m.plans <- struct{}{}:
		return func() { <-m.plans }, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(planWithin):
		return nil, refuse(http.StatusServiceUnavailable, "%d other plans are being made: try again", plansAtOnce)
	}
}

// longestName exceeds any name, reason or address.
const longestName = 200

// who checks a client's statements about itself, which are shown in journals and on terminals.
func who(by string) error {
	if len(by) > longestName || strings.ContainsFunc(by, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return refuse(http.StatusBadRequest, "by is at most %d printable characters: who asks, and why", longestName)
	}
	return nil
}
