package program

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/program/mirror"
	"github.com/tierml/tierml/program/pack"
	"github.com/tierml/tierml/python"
)

// attempt is one run of a program.
type attempt struct {
	m     *Machine
	start Start
	done  chan struct{}
	wake  chan struct{} // wakes the attempt after a request

	all       context.Context // ends with the machine's
	abandon   context.CancelFunc
	prepares  context.Context // ends if the attempt must end before the program runs
	unprepare context.CancelFunc

	mu     sync.Mutex
	ending *ending
	early  bool // a rebalance recommendation arrived
	peers  []string
	asked  bool   // a save was requested
	round  uint64 // of it

	listed   []string // peers in the file; nil = not written yet
	progress progress
	id       string
	output   *output
	shipper  *shipper
	mirror   *mirror.Mirror
	restored bool // it resumes from a state
	empty    bool // which has no files
}

// end requests the end of the attempt.
func (a *attempt) end(e ending) {
	a.mu.Lock()
	if a.ending != nil {
		e = a.ending.and(e)
	}
	a.ending = &e
	a.mu.Unlock()
	a.unprepare()
	a.ring()
}

func (a *attempt) warnEarly() {
	a.mu.Lock()
	a.early = true
	a.asked = !a.start.together() // several ranks save together, when the controller requests it
	a.mu.Unlock()
	a.ring()
}

func (a *attempt) save(round uint64) {
	a.mu.Lock()
	a.asked, a.round = true, max(a.round, round)
	a.mu.Unlock()
	a.ring()
}

func (a *attempt) ring() {
	select {
	case a.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// wanted returns how the attempt should end, if it should.
func (a *attempt) wanted() (e ending, ends bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending == nil {
		return ending{}, false
	}
	return *a.ending, true
}

func (a *attempt) of() Of { return Of{a.start.Attempt, a.start.Key} }

func (a *attempt) report(e Event) { a.m.config.Report(e) }

// run waits for the previous attempt, and then runs this one.
func (a *attempt) run(before *attempt) {
	defer close(a.done)
	defer a.abandon()
	if before != nil {
		<-before.done
	}
	a.report(a.live())
}

// path returns the path of one of the attempt's own files.
func (a *attempt) path(name string) string {
	return filepath.Join(a.m.config.Dir, "attempts", fmt.Sprintf("%s.%d", a.start.Key, a.start.Attempt), name)
}

// live does everything from fetching the folder to sending the rest of the log.
func (a *attempt) live() Exited {
	a.m.notices.set(nil)
	a.id = rand.Text()
	log := filepath.Join(a.m.config.Dir, "logs", fmt.Sprintf("%s.%d.log", a.start.Key, a.start.Attempt))
	err := errors.Join(os.RemoveAll(a.path("")), os.MkdirAll(a.path(""), 0o755), a.writeEnter())
	a.progress.rungs = a.m.config.Spec.Rungs
	if err == nil {
		a.output, err = newOutput(log, a.start.Secrets, a.progress.matcher(a.m.config.Spec.Line))
	}
	if err != nil {
		return a.failed(Fetching, err)
	}
	a.shipper = newShipper(log, a.m.config.Spec.Store, a.start.Key, a.start.Attempt)
	finished := make(chan struct{})
	var shipping sync.WaitGroup
	shipping.Go(func() { a.ship(finished) })
	exited := a.phases()
	if a.mirror != nil {
		a.mirror.Close()
	}
	close(finished)
	shipping.Wait()
	if err := a.output.close(); err != nil {
		a.m.config.Log.Warn("a program's log", "key", a.start.Key, "err", err)
	}
	return exited
}

// ship sends the log in pieces until the attempt ends, and then its rest.
func (a *attempt) ship(finished <-chan struct{}) {
	for over := false; !over; {
		timer := time.NewTimer(shipEvery)
		select {
		case <-finished:
			over = true
		case <-timer.C:
		}
		timer.Stop()
		ctx, cancel := context.WithTimeout(a.all, 30*time.Second)
		if e, ends := a.wanted(); ends && !e.deadline.IsZero() {
			// The machine goes, and the state is more important than the log, which gets the remaining time.
			cancel()
			ctx, cancel = context.WithDeadline(a.all, e.deadline)
		}
		if err := a.shipper.ship(ctx); err != nil {
			a.m.config.Log.Warn("a piece of a program's log was not sent; trying again with the next", "key", a.start.Key, "err", err)
		}
		cancel()
	}
}

// phases runs the attempt's phases, one after another.
func (a *attempt) phases() Exited {
	var started Started
	started.Of = a.of()
	for _, phase := range []struct {
		name Phase
		took *time.Duration
		do   func(*Started) *Exited
	}{
		{Fetching, &started.Fetch, a.fetch},
		{SettingUp, &started.Setup, a.setup},
		{Restoring, &started.Restore, a.restore},
	} {
		began := time.Now()
		exited := phase.do(&started)
		*phase.took = time.Since(began)
		if e, ends := a.wanted(); ends && exited == nil {
			exited = &Exited{Of: a.of(), Phase: phase.name, Note: "asked to end (" + e.kind + ") before the program ran"}
		}
		if exited != nil {
			_, exited.Asked = a.wanted()
			return *exited
		}
	}
	if err := write(a.path("run"), a.m.config.Spec.Run); err != nil {
		return a.failed(Running, err)
	}
	a.m.used = true
	a.writePeers()
	p, err := launch(a.m.container, a.path("run"), a.m.work(), a.id, a.environment(a.start.Secrets), a.output)
	if err != nil {
		return a.failed(Running, fmt.Errorf("start the program: %w", err))
	}
	a.report(started)
	return a.supervise(p)
}

// failed returns the end of an attempt for a reason outside the program.
func (a *attempt) failed(phase Phase, err error) Exited {
	e := Exited{Of: a.of(), Code: -1, Phase: phase, Note: err.Error()}
	_, e.Asked = a.wanted()
	if full(err, "") {
		e.Note += "; " + a.m.disk()
	}
	if a.output != nil {
		a.output.note("%s", e.Note)
	}
	return e
}

func (a *attempt) failure(phase Phase, err error) *Exited {
	e := a.failed(phase, err)
	return &e
}

// fetch unpacks the folder, once per machine.
func (a *attempt) fetch(*Started) *Exited {
	m := a.m
	if m.fetched {
		return nil
	}
	if err := python.Write(filepath.Join(m.config.Dir, "python")); err != nil {
		return a.failure(Fetching, err)
	}
	if m.config.Spec.Workdir != "" {
		if err := a.patiently(a.prepares, hostfault.Away, func() error { return m.download(a.prepares) }); err != nil {
			return a.failure(Fetching, fmt.Errorf("fetch the folder: %w", err))
		}
		if err := m.unpack(a.prepares, ""); err != nil {
			return a.failure(Fetching, fmt.Errorf("fetch the folder: %w", err))
		}
	}
	m.fetched = true
	return nil
}

// storePatience is how long a program waits for an unresponsive store, in wall-clock time. This does not count as a failure of the program.
const storePatience = 10 * time.Minute

// ofHost is for writes that only go to the store. If the machine's own disk is written to, a full one is not an outage.
func ofHost(err error) bool { return hostfault.Of(err) != "" }

// patiently retries after temporary failures.
func (a *attempt) patiently(ctx context.Context, passes func(error) bool, do func() error) error {
	for began, wait := time.Now(), time.Second; ; wait = min(2*wait, 15*time.Second) {
		err := do()
		if err == nil || !passes(err) || time.Since(began) > storePatience {
			return err
		}
		a.output.note("%v; trying again in %.0f s", err, wait.Seconds())
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

func (m *Machine) archive() string { return filepath.Join(m.config.Dir, "workdir.tar.zst") }

func (m *Machine) download(ctx context.Context) error {
	from, err := blob.Open(ctx, m.config.Spec.Workdir)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(m.archive())
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, sum), from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != m.config.Spec.WorkdirDigest {
		return fmt.Errorf("%s is not what was packed: it has digest %.12s, not %.12s", m.config.Spec.Workdir, got, m.config.Spec.WorkdirDigest)
	}
	return nil
}

func (m *Machine) unpack(ctx context.Context, only string) error {
	from, err := os.Open(m.archive())
	if err != nil {
		return err
	}
	defer from.Close()
	return pack.Unpack(ctx, from, m.work(), only, 0)
}

// setup prepares the machine, once for each combination of folder and script.
func (a *attempt) setup(*Started) *Exited {
	spec := a.m.config.Spec
	if err := a.contain(); err != nil {
		return a.failure(SettingUp, err)
	}
	if strings.TrimSpace(spec.Setup) == "" {
		return nil
	}
	prepared := spec.WorkdirDigest + "\n" + spec.Setup
	if c := a.m.container; c != nil {
		prepared += "\n" + c.name
	}
	sum := sha256.Sum256([]byte(prepared))
	stamp := filepath.Join(a.m.config.Dir, "setup-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(stamp); err == nil {
		return nil
	}
	if err := write(a.path("setup"), spec.Setup); err != nil {
		return a.failure(SettingUp, err)
	}
	p, err := launch(a.m.container, a.path("setup"), a.m.work(), a.id, a.environment(a.start.Secrets), a.output)
	if err != nil {
		return a.failure(SettingUp, fmt.Errorf("start setup: %w", err))
	}
	select {
	case <-p.ended:
	case <-a.prepares.Done():
	}
	p.finish()
	a.output.end()
	if _, ends := a.wanted(); ends {
		return nil // phases reports it
	}
	if code, signal := p.status(); code != 0 {
		tail, _ := a.output.last()
		e := &Exited{Of: a.of(), Code: code, Signal: signal, Phase: SettingUp, Tail: tail, Note: "setup failed with exit code " + strconv.Itoa(code)}
		if full(nil, tail) {
			e.Note += "; " + a.m.disk()
		}
		a.output.note("%s", e.Note)
		return e
	}
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		return a.failure(SettingUp, err)
	}
	return nil
}

// contain ensures that a container runs, if the job names an image.
func (a *attempt) contain() error {
	m := a.m
	if m.config.Spec.Image == "" || m.container != nil && !m.container.over() {
		return nil
	}
	c, err := openContainer(a.prepares, m.config.Spec.Image, m.config.Dir, a.output)
	if err != nil {
		return err
	}
	m.container = c
	return a.writeEnter()
}

// restore claims the state and puts it in place.
func (a *attempt) restore(started *Started) *Exited {
	state := a.m.state()
	if state == "" {
		return nil
	}
	err := a.patiently(a.prepares, ofHost, func() (err error) {
		a.mirror, err = mirror.Open(a.prepares, mirror.Config{
			Store: a.m.config.Spec.Store, Key: a.start.Key, Attempt: a.start.Attempt, Dir: state, Marker: a.m.config.Spec.Marker, Room: a.m.room,
			Rank: a.start.Rank, Ranks: a.start.gang(), KeyOf: a.start.keyOf,
		})
		return err
	})
	if err != nil {
		return a.failure(Restoring, err)
	}
	defer a.mirror.Watch() // from now on, changes are the program's
	restore, any := a.mirror.RestoreNewest, a.start.Resume != ""
	if a.start.together() { // mixing one rank's older generation with newer ones of the others would be a state that never existed
		restore, any = a.mirror.RestoreSet, a.start.Attempt > 1
	}
	var manifest *mirror.Manifest
	if any {
		err = a.patiently(a.prepares, hostfault.Away, func() (err error) {
			manifest, started.Note, err = restore(a.prepares, a.start.Resume, a.start.ResumeDigest)
			return err
		})
	}
	if err == nil && manifest == nil {
		err = a.anew(state)
	}
	if err != nil {
		return a.failure(Restoring, err)
	}
	if manifest == nil {
		return nil
	}
	a.restored = true
	if started.Note != "" {
		a.output.note("%s", started.Note)
	}
	started.Manifest, started.Bytes, started.Step = manifest.Name(), manifest.Bytes(), manifest.Step
	a.empty = len(manifest.Files) == 0
	a.progress.startAt(manifest.Step)
	return nil
}

// anew keeps the files in the state's directory that came with the folder.
func (a *attempt) anew(state string) error {
	if a.m.used {
		if err := os.RemoveAll(state); err != nil {
			return err
		}
		if a.m.config.Spec.Workdir != "" {
			if err := a.m.unpack(a.prepares, a.m.config.Spec.State); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(state, 0o755)
}

// agentsOnly are variables that lead to the machine's metadata, which has its user data and its own credentials.
var agentsOnly = []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "GCE_METADATA_HOST"}

// environment returns a program's environment. The job file may override the variables by which ranks meet, but not ours.
func (a *attempt) environment(secrets map[string]string) []string {
	s, m := a.start, a.m
	env := map[string]string{}
	inherited := m.config.Environ
	if m.config.Spec.Image != "" {
		inherited = nil // the image has its own
	}
	for _, one := range inherited {
		if name, value, ok := strings.Cut(one, "="); ok && !strings.HasPrefix(name, "TIERML_") && !slices.Contains(agentsOnly, name) {
			env[name] = value
		}
	}
	env["PYTHONUNBUFFERED"] = "1" // write progress and logs unbuffered
	state := m.state()
	if _, set := env["GLIBC_TUNABLES"]; state != "" && !set {
		// tierml.keep copies pieces of at most 32 MiB. By default glibc writes copies through the caches up to a share of the host's last cache, on
		// large hosts 50 MB and more, and reads each destination for that: the copy of 1.5 GB took .15 s and not .09 s.
		env["GLIBC_TUNABLES"] = "glibc.cpu.x86_non_temporal_threshold=8388608"
	}
	lib := filepath.Join(m.config.Dir, "python")
	if before := env["PYTHONPATH"]; before != "" {
		lib += string(os.PathListSeparator) + before
	}
	env["PYTHONPATH"] = lib
	ranks := max(1, s.Ranks)
	if ranks > 1 { // accelerate and others would treat the program as one of several
		maps.Copy(env, s.meeting())
	}
	maps.Copy(env, s.tracking())
	maps.Copy(env, m.config.Spec.Envs)
	maps.Copy(env, s.Settings)
	maps.Copy(env, secrets)
	resumed := "0"
	if (a.restored || s.Resume != "") && !a.empty {
		resumed = "1"
	}
	maps.Copy(env, map[string]string{
		"TIERML_RUN": s.Run, "TIERML_ATTEMPT": strconv.FormatUint(s.Attempt, 10), "TIERML_RESUMED": resumed,
		"TIERML_RANK": strconv.Itoa(s.Rank), "TIERML_RANKS": strconv.Itoa(ranks),
		"TIERML_NOTICE_FILE": a.path("notice"), "TIERML_PROGRESS_FILE": a.path("progress"),
		"TIERML_SAVE_FILE": a.path("save"), "TIERML_KEPT_FILE": a.path("kept"),
	})
	maps.Copy(env, m.notices.environment())
	if m.config.Keys != nil {
		env["AWS_EC2_METADATA_DISABLED"] = "true" // the machine's own role is for its agent
	}
	if state != "" {
		env["TIERML_STATE"] = state
	}
	if rungs := m.config.Spec.Rungs; len(rungs) > 0 {
		env["TIERML_RUNGS"], env["TIERML_RUNGS_FILE"] = strings.Trim(fmt.Sprint(rungs), "[]"), a.path("rungs")
	}
	if s.Elastic {
		env["TIERML_PEERS_FILE"] = a.path("peers")
	}
	if s.Tasks > 0 {
		env["TIERML_TASK"], env["TIERML_TASKS"] = strconv.Itoa(s.Task), strconv.Itoa(s.Tasks)
	}
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// room reports whether the disk has room for a state; true if unknown.
func (m *Machine) room(state int64) error {
	free, total, err := m.space(m.config.Dir)
	if err != nil || uint64(state) <= free {
		return nil
	}
	return fmt.Errorf("the state of %d MB does not fit on the machine's disk, of which %d MB of %d MB are free: take machines with larger disks, or keep less in the state",
		state/1e6, free/1e6, total/1e6)
}

// disk describes the fullest file system that a program writes to.
func (m *Machine) disk() string {
	text, least := "the machine's disk is full", uint64(math.MaxUint64)
	for _, dir := range []string{m.config.Dir, m.state(), os.TempDir(), "/dev/shm"} {
		if dir == "" {
			continue
		}
		if free, total, err := m.space(dir); err == nil && free < least && total > 0 {
			text, least = fmt.Sprintf("the machine's disk is full: %d MB of %d MB are free at %s", free/1e6, total/1e6, dir), free
		}
	}
	return text
}

// modified returns when a file was last written; zero if it does not exist.
func modified(name string) (fs.FileInfo, time.Time) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, time.Time{}
	}
	return info, info.ModTime()
}
