package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
)

const (
	machineLogs = "machines" // folder of machines' output
	// patience is how long a run may go without finishing a clock. It is long, as speed is not tested.
	patience = 2 * time.Minute
	often    = 20 * time.Millisecond
)

// trial is one run of a job on a fake cloud in its own process.
type trial struct {
	site
	job      job
	out      io.Writer
	cloud    *process
	endpoint string
	run      *process

	pending sync.WaitGroup
	mu      sync.Mutex
	errs    []error // from things done later
}

// begin starts a cloud and a run on it. The caller must call abandon.
func begin(dir, binary string, j job, out io.Writer) (t *trial, err error) {
	t = &trial{job: j, out: out}
	if t.site, err = newSite(dir, binary); err != nil {
		return t, err
	}
	if err := t.writeJob(j); err != nil {
		return t, err
	}
	if err := t.startCloud(); err != nil {
		return t, err
	}
	t.run, err = t.start(j.Name+".log", "run", "-y", "--plain", "--endpoint", t.endpoint, j.file())
	return t, err
}

// resume restarts the run's controller.
func (t *trial) resume() (err error) {
	t.run, err = t.start(t.job.Name+".log", "run", "-y", "--plain", "--endpoint", t.endpoint, "--resume", t.folder())
	return err
}

// abandon ends whatever is left.
func (t *trial) abandon() {
	t.pending.Wait()
	if t.run != nil {
		t.run.signal(syscall.SIGKILL)
	}
	if t.cloud != nil {
		t.cloud.end()
	}
	t.killAll(nil)
}

var address = regexp.MustCompile(`(?m)at (http://\S+)$`)

func (t *trial) startCloud() (err error) {
	j := t.job
	t.cloud, err = t.start("cloud.log", "fakecloud", "--prices", "prices.csv", "--catalog", "catalog.csv",
		"--start", "2014-04-01T00:00:00Z", "--speed", fmt.Sprint(j.Speed), "--notice", j.Notice.String(), "--set", "boot="+j.Boot.String(),
		"--set", "flops-per-vcpu="+strconv.FormatFloat(j.FlopsPerVCPU, 'f', -1, 64), "--set", "log-dir="+machineLogs, "--records", "cloud.jsonl",
		"--instance-command", t.binary+" agent", "--set", "seed="+strconv.FormatUint(j.Seed, 10), "--set", "verbose=true")
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && !t.cloud.over(); time.Sleep(often) {
		if found := address.FindStringSubmatch(t.cloud.printed()); found != nil {
			t.endpoint = found[1]
			return nil
		}
	}
	return fmt.Errorf("the cloud did not start: %s", t.cloud.printed())
}

// do triggers an event, in the words of the cloud's scripts, and returns the machines affected.
func (t *trial) do(format string, args ...any) (targets []string, err error) {
	step := fmt.Sprintf(format, args...)
	body, err := json.Marshal(map[string]string{"step": step})
	if err != nil {
		return nil, err
	}
	response, err := http.Post(t.endpoint+"/_control/do", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", step, response.Status, answer)
	}
	var done struct {
		Targets []string `json:"targets"`
	}
	return done.Targets, json.Unmarshal(answer, &done)
}

// look reads the cloud's "instances" or its "bill".
func (t *trial) look(at string, into any) error {
	response, err := http.Get(t.endpoint + "/_control/" + at)
	if err != nil {
		return fmt.Errorf("looking at the cloud's %s: %w", at, err)
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

// machine is an instance that has a process.
type machine struct {
	id  string
	pid int
}

// machines returns the running machines of some classes, the oldest first.
func (t *trial) machines(classes ...market.Class) (list []machine, err error) {
	var instances []fakecloud.InstanceView
	if err := t.look("instances", &instances); err != nil {
		return nil, err
	}
	for _, i := range instances {
		if i.Ended.IsZero() && i.Metadata != "" && slices.Contains(classes, i.Pool.Class) {
			if pid := t.processOf(i.ID); pid != 0 {
				list = append(list, machine{i.ID, pid})
			}
		}
	}
	return list, nil
}

// processOf returns the process of an instance, known by the log that it writes; 0 = there is none.
func (t *trial) processOf(instance string) int {
	want := t.path(machineLogs, instance+".log")
	for _, pid := range t.processes(nil) {
		if log, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid)); log == want {
			return pid
		}
	}
	return 0
}

// folder returns the run's directory.
func (t *trial) folder() string { return t.path(rundir.Root, t.job.Name+"-1") }

func (t *trial) model() ([]byte, error) {
	return os.ReadFile(filepath.Join(t.folder(), rundir.ModelFile))
}

// journal reads the run's journal so far.
func (t *trial) journal() ([]journal.Entry, error) {
	entries, _, err := journal.ReadFile(filepath.Join(t.folder(), rundir.JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// progress distinguishes a run that advances from one that is stuck.
type progress struct {
	clocks int
	since  time.Time
}

// look returns an error if the run has not finished a clock for longer than patience.
func (p *progress) look(t *trial, entries []journal.Entry) error {
	if n := count(entries, journal.ClockDone) + count(entries, journal.Export); n != p.clocks || p.since.IsZero() {
		p.clocks, p.since = n, time.Now()
	}
	if still := time.Since(p.since); still > patience {
		return fmt.Errorf("stuck: no clock for %v; it printed\n%s", still.Round(time.Second), t.run.printed())
	}
	return nil
}

// until waits for an event in the journal. It returns false if the run ends first.
func (t *trial) until(ctx context.Context, there func([]journal.Entry) bool) (bool, error) {
	var watch progress
	for ; ; time.Sleep(often) {
		over := t.run.over()
		entries, err := t.journal()
		switch {
		case err != nil:
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case there(entries):
			return true, nil
		case over:
			return false, nil
		}
		if err := watch.look(t, entries); err != nil {
			return false, err
		}
	}
}

// await is until, with an error if the run ends first.
func (t *trial) await(ctx context.Context, there func([]journal.Entry) bool) error {
	ok, err := t.until(ctx, there)
	if err == nil && !ok {
		err = fmt.Errorf("the run ended by itself; it printed\n%s", t.run.printed())
	}
	return err
}

// reach waits for a clock.
func (t *trial) reach(ctx context.Context, clock int64) error {
	return t.await(ctx, func(entries []journal.Entry) bool { return reached(entries) >= clock })
}

// finish waits for the end of a run that ends by itself, and returns its journal.
func (t *trial) finish(ctx context.Context) ([]journal.Entry, error) {
	if _, err := t.until(ctx, func([]journal.Entry) bool { return false }); err != nil {
		return nil, err
	}
	if t.run.err != nil {
		return nil, fmt.Errorf("the run failed: %w; it printed\n%s", t.run.err, t.run.printed())
	}
	return t.journal()
}

// interrupt ends the run cleanly.
func (t *trial) interrupt() error {
	t.run.signal(syscall.SIGINT)
	select {
	case <-t.run.ended:
		return nil
	case <-time.After(2 * patience):
		return fmt.Errorf("stuck: the run does not end; it printed\n%s", t.run.printed())
	}
}

// later does something after a while, in a goroutine that settle and abandon wait for.
func (t *trial) later(after time.Duration, do func() error) {
	t.pending.Go(func() {
		time.Sleep(after)
		if err := do(); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.errs = append(t.errs, err)
		}
	})
}

// settle waits for everything scheduled by later.
func (t *trial) settle() error {
	t.pending.Wait()
	return errors.Join(t.errs...)
}

// reached returns the highest clock ever done.
func reached(entries []journal.Entry) (clock int64) {
	for _, e := range entries {
		if e.Kind == journal.ClockDone {
			clock = max(clock, e.Clock)
		}
	}
	return clock
}

// count counts entries of a kind.
func count(entries []journal.Entry, kind journal.Kind) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
