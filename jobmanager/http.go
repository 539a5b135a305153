package jobmanager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/scaling"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
	"github.com/tierml/tierml/watch/dashboard"
)

// served is a call of the API: the minimum right to some group that its client needs, and its handler.
type served struct {
	least access.Right
	by    func(http.ResponseWriter, *http.Request) error
}

// api serves a manager's calls.
type api struct{ *Manager }

// calls returns the API's calls, by pattern.
func (m api) calls() map[string]served {
	return map[string]served{
		"GET /api/v1/jobs":                      {access.Watch, m.serveJobs},
		"POST /api/v1/jobs":                     {access.Submit, m.serveSubmit},
		"POST /api/v1/plan":                     {access.Submit, m.servePlan},
		"GET /api/v1/jobs/{id}":                 {access.Watch, m.serveJob},
		"DELETE /api/v1/jobs/{id}":              {access.Submit, m.serveDelete},
		"POST /api/v1/jobs/{id}/stop":           {access.Submit, m.serveStop},
		"POST /api/v1/jobs/{id}/resume":         {access.Submit, m.serveResume},
		"POST /api/v1/jobs/{id}/scale":          {access.Submit, m.serveScale},
		"GET /api/v1/jobs/{id}/why":             {access.Watch, m.serveWhy},
		"GET /api/v1/sweeps/{id}":               {access.Watch, sweeps(m).serve},
		"GET /api/v1/jobs/{id}/events":          {access.Watch, m.serveEvents},
		"GET /api/v1/jobs/{id}/logs":            {access.Watch, m.serveLogs},
		"GET /api/v1/jobs/{id}/files/{name}":    {access.Watch, m.serveFile},
		"GET /api/v1/jobs/{id}/state/{program}": {access.Watch, m.serveState},
		"HEAD /api/v1/inputs/{sum}/{name}":      {access.Submit, m.inputs.serveHas},
		"PUT /api/v1/inputs/{sum}/{name}":       {access.Submit, m.inputs.serveUpload},
		"PUT /api/v1/inputs/{sum}":              {access.Submit, m.inputs.serveListing},
		"GET /api/v1/groups": {access.Watch, func(w http.ResponseWriter, r *http.Request) error {
			answer(w, http.StatusOK, m.accounts().answered(m.Manager, access.ClientOf(r.Context())))
			return nil
		}},
		"GET /api/v1/hosts": {access.Watch, func(w http.ResponseWriter, r *http.Request) error {
			views, err := m.board.Hosts(r)
			if err == nil {
				answer(w, http.StatusOK, views)
			}
			return err
		}},
		"GET /api/v1/": {access.Watch, func(http.ResponseWriter, *http.Request) error {
			return refuse(http.StatusNotFound, "there is no such call; docs/server.md lists them")
		}},
	}
}

// Handler serves the API below /api/v1, and the dashboard everywhere else. access.Gate must precede it: without one clients have no rights.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	api := api{m}
	for pattern, c := range api.calls() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			err := demand(c.least, r)
			if err == nil {
				err = c.by(w, r)
			}
			if err != nil && r.Context().Err() == nil {
				api.complain(w, r, err)
			}
		})
	}
	mux.Handle("/", guardPages(m.board.Guarded()))
	return audited(m, mux)
}

// refusal is an error caused by the client.
type refusal struct {
	status int
	error
}

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Errorf(format, args...)}
}

func (m api) complain(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if refused, ok := errors.AsType[refusal](err); ok {
		status = refused.status
	} else if why := hostfault.Of(err); why != "" {
		m.cfg.Log.Error("a call failed", "method", r.Method, "path", r.URL.Path, "error", err)
		status, err = http.StatusServiceUnavailable, fmt.Errorf("the job server's host: %s; try again later", why)
	} else {
		m.cfg.Log.Error("a call failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	answer(w, status, call.Refusal{Error: err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // the client may have disconnected
}

// maxRequest is the largest request other than a file: a job file may have 1 MiB.
const maxRequest = 4 << 20

func read(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", maxRequest)
		}
		return refuse(http.StatusBadRequest, "the request is invalid: %w", err)
	}
	access.AllRead(w)
	return nil
}

// list answers with all jobs and manually started runs, in order of names.
func (m *Manager) list() []call.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []call.Job
	seen := map[string]bool{}
	for _, s := range m.board.Summaries() {
		seen[s.Run] = true
		out = append(out, m.withJob(s))
	}
	for _, j := range m.jobs {
		if !seen[j.ID] {
			name, _, _ := cutLast(j.ID)
			out = append(out, m.withJob(dashboard.Summary{Run: j.ID, Job: name}))
		}
	}
	slices.SortFunc(out, func(a, b call.Job) int { return runs.Compare(a.Run, b.Run) })
	place := 0
	for _, j := range m.inOrder() {
		if j.State != call.Queued || j.Hosts {
			continue
		}
		place++
		if i := slices.IndexFunc(out, func(o call.Job) bool { return o.Run == j.ID }); i >= 0 {
			out[i].Place = place
		}
	}
	return out
}

// cutLast splits NAME-N.
func cutLast(id string) (name, number string, found bool) {
	if i := strings.LastIndexByte(id, '-'); i >= 0 {
		return id[:i], id[i+1:], true
	}
	return id, "", false
}

// withJob adds job information to a run. The lock must be held.
func (m *Manager) withJob(s dashboard.Summary) call.Job {
	out := call.Job{Summary: s}
	j := m.jobs[s.Run]
	if j == nil {
		return out
	}
	if j.State != call.Running || !s.Active() { // otherwise its run knows better
		out.State = string(j.State)
	}
	out.Submitted, out.Starts, out.Hosts, out.Group = &j.Submitted, j.Starts, j.Hosts, j.Group
	out.User = j.User
	if why := (bounds{m}).waitsFor(j); why != "" {
		out.Why = why
	}
	if j.State == call.Stopping {
		out.Why = j.Why
	}
	return out
}

// findJob returns the job or run that a client names, of those that it may see: its id, the name of a job, which means the newest, or
// "latest".
func (m api) findJob(c access.Client, meant string) (call.Job, error) {
	all := seen(c, m.list())
	for _, j := range slices.Backward(all) {
		if name, _, _ := cutLast(j.Run); j.Run == meant || name == meant {
			return j, nil
		}
	}
	if meant == "latest" && len(all) > 0 {
		return slices.MaxFunc(all, func(a, b call.Job) int { return newest(a).Compare(newest(b)) }), nil
	}
	names := make([]string, len(all))
	for i, j := range all {
		names[i] = j.Run
	}
	there := strings.Join(names, ", ")
	if there == "" {
		there = "none yet"
	}
	if !seesAll(c) {
		return call.Job{}, refuse(http.StatusNotFound, "there is no job %q that this token may watch; there are %s, as it has %s", meant, there, c)
	}
	return call.Job{}, refuse(http.StatusNotFound, "there is no job %q here; there are %s", meant, there)
}

func newest(j call.Job) (t time.Time) {
	if j.Submitted != nil {
		t = *j.Submitted
	}
	return t
}

// path finds the job of a request, and the directory of its run.
func (m api) path(r *http.Request) (call.Job, string, error) {
	j, err := m.findJob(access.ClientOf(r.Context()), r.PathValue("id"))
	return j, filepath.Join(m.root, j.Run), err
}

func (m api) serveJobs(w http.ResponseWriter, r *http.Request) error {
	answer(w, http.StatusOK, append([]call.Job{}, seen(access.ClientOf(r.Context()), m.list())...))
	return nil
}

func (m api) serveJob(w http.ResponseWriter, r *http.Request) error {
	j, dir, err := m.path(r)
	if err != nil {
		return err
	}
	if state, err := jobrun.ReadState(dir); err == nil { // otherwise it has not begun
		j.Cloud = state.Cloud
	}
	answer(w, http.StatusOK, j)
	return nil
}

func (m api) serveSubmit(w http.ResponseWriter, r *http.Request) error {
	job, text, secrets, user, err := m.accept(w, r)
	if err != nil {
		return err
	}
	client := access.ClientOf(r.Context())
	ids, err := sweeps(m).submit(job, text, secrets, client.ID(), user)
	if errors.Is(err, errFull) {
		return refusal{http.StatusTooManyRequests, err}
	}
	if err != nil {
		return err
	}
	j, err := m.findJob(client, ids[0])
	if err == nil {
		about(r, j.Run, j.Group, user)
		j.Trials = ids[1:]
		answer(w, http.StatusCreated, j)
	}
	return err
}

func (m api) serveStop(w http.ResponseWriter, r *http.Request) error {
	var s call.Stop
	if err := errors.Join(read(w, r, &s), who(s.By)); err != nil {
		return err
	}
	j, dir, err := m.toChange(r, s.By)
	if err != nil {
		return err
	}
	if s.Program != "" {
		if err := scaling.Cancel(r.Context(), dir, cmp.Or(s.By, "a user asked"), s.Program); err != nil {
			return refuse(http.StatusConflict, "%w", err)
		}
		return m.serveJob(w, r)
	}
	if err := m.Stop(r.Context(), j.Run, s.By, s.Now); err != nil {
		return err
	}
	return m.serveJob(w, r)
}

func (m api) serveWhy(w http.ResponseWriter, r *http.Request) error {
	j, _, err := m.path(r)
	if err != nil {
		return err
	}
	if why := m.waiting(j.Run); why.Grant.Why != "" {
		answer(w, http.StatusOK, why)
		return nil
	}
	why, err := m.scheduler.why(m.Manager, j.Run)
	if err != nil {
		return refuse(http.StatusConflict, "%w", err)
	}
	client := access.ClientOf(r.Context())
	m.mu.Lock()
	why.Plan = m.unnamed(why.Plan, func(group string) bool { return client.Right(group) >= access.Watch })
	m.mu.Unlock()
	why.Jobs = slices.DeleteFunc(slices.Clone(why.Jobs), func(g grants.Grant) bool { return client.Right(m.groupOfJob(g.Job)) < access.Watch })
	answer(w, http.StatusOK, why)
	return nil
}

// waiting returns why a job outside the scheduler is not started: a budget or a quota. The reason is empty if it is neither.
func (m api) waiting(id string) (w call.Why) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[id]; j != nil && j.State == call.Queued {
		w.Grant = grants.Grant{Job: id, Action: sched.Wait, Why: cmp.Or(bounds(m).heldBy(j), bounds(m).overQuota(j))}
		w.At, w.Most, w.Jobs = m.cfg.Now(), j.machines(), []grants.Grant{}
	}
	return w
}

func (m api) serveResume(w http.ResponseWriter, r *http.Request) error {
	j, _, err := m.toChange(r, "")
	if err != nil {
		return err
	}
	if err := m.Resume(j.Run); err != nil {
		return refuse(http.StatusConflict, "%s: %w", j.Run, err)
	}
	return m.serveJob(w, r)
}

func (m api) serveDelete(w http.ResponseWriter, r *http.Request) error {
	_, dir, err := m.toChange(r, "")
	if err != nil {
		return err
	}
	if err := m.deleteRun(r.Context(), dir); err != nil {
		return refuse(http.StatusConflict, "%w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (m api) serveScale(w http.ResponseWriter, r *http.Request) error {
	var s call.Scale
	if err := errors.Join(read(w, r, &s), who(s.By)); err != nil {
		return err
	}
	j, dir, err := m.toChange(r, s.By)
	if err == nil {
		err = bounds(m).gate(j.Run, s)
	}
	if err != nil {
		return err
	}
	stream := m.stream(w, "application/x-ndjson")
	change := &pb.Change{Workers: s.Workers, Servers: s.Servers, Reliable: s.Reliable, Restore: s.Restore, Pause: s.Pause, Resume: s.Resume, Wait: s.Wait, By: s.By}
	err = scaling.Ask(r.Context(), dir, change, func(t *pb.Standing) {
		stream.json(call.Standing{Reached: t.Reached, Workers: t.Workers, Servers: t.Servers, Reliable: t.Reliable, WantedMachines: t.WantedMachines,
			WantedVCPUs: t.WantedVcpus, WantedServers: t.WantedServers, WantedReliable: t.WantedReliable, Paused: t.Paused})
		stream.flush()
	})
	if err != nil && !stream.begun {
		return refuse(http.StatusConflict, "%w", err)
	}
	if err != nil {
		stream.json(call.Standing{Error: err.Error()})
	}
	return nil
}

// goesOn reports whether followers may expect more from a job.
func (m *Manager) goesOn(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[id]; j != nil {
		return !j.State.Over()
	}
	return rundir.Held(filepath.Join(m.root, id))
}

// serveEvents returns the journal's lines; an empty line says that there is nothing more for now.
func (m api) serveEvents(w http.ResponseWriter, r *http.Request) error {
	j, dir, err := m.path(r)
	if err != nil {
		return err
	}
	skip, err := strconv.Atoi(r.FormValue("skip"))
	if err != nil && r.FormValue("skip") != "" || skip < 0 {
		return refuse(http.StatusBadRequest, "skip is a number of lines")
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	follow := r.FormValue("follow") != ""
	stream := m.stream(w, "application/x-ndjson")
	caught := func() {
		stream.write([]byte("\n"))
		stream.flush()
		if stream.err != nil {
			stop(stream.err)
		}
	}
	going := func() bool { return follow && ctx.Err() == nil && m.goesOn(j.Run) }
	for !began(dir) {
		caught()
		if !going() {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(runs.Poll):
		}
	}
	return runs.FollowWhile(ctx, dir, going, func(e journal.Entry) {
		if skip--; skip < 0 {
			stream.json(e)
		}
	}, caught)
}

func (m api) serveLogs(w http.ResponseWriter, r *http.Request) error {
	j, dir, err := m.path(r)
	if err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return refuse(http.StatusBadRequest, "the request cannot be read: %w", err)
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	stream := m.stream(w, "text/plain; charset=utf-8")
	logs := runs.OpenLogs(dir, r.Form["name"])
	err = logs.Follow(ctx, func() bool {
		stream.flush()
		return r.FormValue("follow") != "" && stream.err == nil && m.goesOn(j.Run)
	}, stream)
	if none, ok := errors.AsType[runs.NoLog](err); ok {
		if stream.begun { // other names have logs
			return nil
		}
		return refusal{http.StatusNotFound, none}
	}
	return err
}

// serveFile returns a file of a run that a client may have.
func (m api) serveFile(w http.ResponseWriter, r *http.Request) error {
	j, dir, err := m.path(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if !slices.Contains(call.Files, name) {
		return refuse(http.StatusNotFound, "there is no file %q to fetch; there are %s", name, strings.Join(call.Files, ", "))
	}
	file, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return refuse(http.StatusNotFound, "%s has no %s (yet)", j.Run, name)
	}
	if err != nil {
		return fmt.Errorf("opening a file of %s: %w", j.Run, err)
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	if name == rundir.ModelFile {
		_, _ = io.Copy(w, file) // the client may have disconnected
		return nil
	}
	return dashboard.CopyLines(w, file, m.inputs.outOfPlace)
}

// stream is a response in lines, as clients see them. Its first error stays.
type stream struct {
	w     http.ResponseWriter
	kind  string
	shown func(string) string
	half  []byte // an incomplete line
	begun bool
	err   error
}

func (m api) stream(w http.ResponseWriter, kind string) *stream {
	return &stream{w: w, kind: kind, shown: m.inputs.outOfPlace}
}

func (s *stream) write(text []byte) {
	s.half = append(s.half, text...)
	whole := bytes.LastIndexByte(s.half, '\n') + 1
	lines := string(s.half[:whole])
	s.half = s.half[:copy(s.half, s.half[whole:])]
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
	}
	if s.err == nil {
		access.Answering(s.w)
		_, s.err = io.WriteString(s.w, s.shown(lines))
	}
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.write(p)
	return len(p), s.err
}

func (s *stream) json(v any) {
	encoder := json.NewEncoder(s)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil && s.err == nil {
		s.err = err
	}
}

func (s *stream) flush() {
	if s.begun {
		_ = http.NewResponseController(s.w).Flush() // the next write reports an error
	}
}
