package jobmanager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/scaling"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/sched"
)

// standIn is a run in this process: it holds its directory, keeps a journal, answers calls, and buys what it wants as soon as it may. It
// ends surplus machines later, so that a manager that counts on their end too early is caught.
type standIn struct {
	cloud   *bill
	id, dir string
	file    *config.Job
	lines   *journal.Writer
	door    *scaling.Server
	release func()
	ended   chan error
	bounds  *elasticity.Bounds

	mu     sync.Mutex
	over   bool
	own    int
	want   int // without a pause
	paused string
	by     bool // a scheduler has paused it
	clock  int64
}

// bill is the cloud's own record: what each run has at each instant.
type bill struct {
	t        *testing.T
	mu       sync.Mutex
	slots    int // 0 = no scheduler
	quota    map[string]int
	machines map[string][]string // transient ones, by run
	reliable map[string]int
	files    map[string]*config.Job
	bought   int
	most     int
	story    []string
}

func (c *bill) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.story = append(c.story, fmt.Sprintf(format, args...))
}

// breaks reports the first violation, with everything that led to it. It needs the lock.
func (c *bill) breaks(format string, args ...any) {
	if !c.t.Failed() {
		c.t.Errorf(format+"\n%s", append(args, strings.Join(c.story, "\n"))...)
	}
}

// buys adds machines to a run, and checks all bounds after each. It needs the lock.
func (c *bill) buys(id string, n int) (names []string) {
	for range n {
		c.bought++
		name := fmt.Sprint("m-", c.bought)
		c.machines[id] = append(c.machines[id], name)
		names = append(names, name)
		all, groups := 0, map[string]int{}
		for run, has := range c.machines {
			all += len(has)
			groups[c.files[run].Group] += len(has) + c.reliable[run]
			if most := c.files[run].Resources.Count.Most; len(has) > most {
				c.breaks("%s has %d machines, and its file allows %d", run, len(has), most)
			}
		}
		c.most = max(c.most, all)
		if c.slots > 0 && all > c.slots {
			c.breaks("%d machines on %d slots: %v", all, c.slots, c.machines)
		}
		for group, has := range groups {
			if q := c.quota[group]; q > 0 && has > q {
				c.breaks("group %s has %d machines of %d", group, has, q)
			}
		}
	}
	return names
}

func (r *standIn) write(e journal.Entry) {
	if e.T = time.Now(); r.lines.Write(e) != nil {
		r.cloud.t.Error("its journal cannot be written")
	}
}

// buy makes the run buy what it wants. It needs the run's lock.
func (r *standIn) buy() {
	want := r.want
	if r.paused != "" || r.over {
		want = 0
	}
	r.cloud.mu.Lock()
	names := r.cloud.buys(r.id, want-len(r.cloud.machines[r.id]))
	r.cloud.mu.Unlock()
	for _, name := range names {
		r.write(journal.Entry{Kind: journal.Launch, Instance: name, Tier: "transient"})
	}
}

// shrink ends its surplus.
func (r *standIn) shrink() {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := r.want
	if r.paused != "" {
		want = 0
	}
	for !r.over {
		r.cloud.mu.Lock()
		has := r.cloud.machines[r.id]
		if len(has) > want {
			r.cloud.machines[r.id] = has[1:]
		}
		r.cloud.mu.Unlock()
		if len(has) <= want {
			return
		}
		r.write(journal.Entry{Kind: journal.Terminated, Instance: has[0]})
	}
}

func (r *standIn) scaled(why string) {
	d := journal.ScaleDetails{Paused: r.paused, Scheduled: r.by}
	if r.want != r.own {
		d.Want = &journal.Want{Machines: r.want}
	}
	details, _ := journal.Pack(d)
	r.write(journal.Entry{Kind: journal.Scale, To: fmt.Sprint(r.want), Why: why, Details: details})
}

// Scale handles a request as elasticity.Controller does.
func (r *standIn) Scale(_ context.Context, want elasticity.ScaleWanted, _ bool, told func(elasticity.Scale, bool) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.want + want.Workers + max(want.Servers, 0)
	if want.Reset {
		next = r.own + want.Workers
	}
	switch {
	case r.over || r.file.IsProgram():
		return errors.New("no")
	case r.bounds.Granted >= 0 && !want.Scheduled && !want.Pause && !want.Resume:
		return errors.New("the scheduler grants it its machines")
	case r.bounds.Granted >= 0 && !want.Scheduled && want.Resume && r.paused != "" && !r.by:
		r.paused, r.by = want.By+" resumed it", true
	case want.Pause:
		if r.paused == "" || r.by && !want.Scheduled {
			r.paused, r.by = cmp.Or(want.By, "a user"), want.Scheduled
		}
	case r.paused != "" && !want.Resume, r.paused == "" && want.Resume && !want.Scheduled, want.Resume && r.paused != "" && r.by != want.Scheduled:
		return errors.New("paused or not")
	case next < 0, !want.Scheduled && r.bounds != nil && next > r.own, want.Reliable > 0:
		return errors.New("more than its file allows")
	default:
		r.want = next
		if want.Resume {
			r.paused, r.by = "", false
		}
	}
	r.cloud.tell("    %s gets %+v, and wants %d", r.id, want, r.want)
	r.scaled(want.By)
	r.buy()
	return told(elasticity.Scale{}, true)
}

func (r *standIn) Stop(_ context.Context, why string, _ bool) { go r.end("interrupted", why) }

// end ends it cleanly, or, with outcome "", as kill -9 does.
func (r *standIn) end(outcome, why string) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over = true
	if outcome != "" {
		r.cloud.mu.Lock()
		has := r.cloud.machines[r.id]
		delete(r.cloud.machines, r.id)
		delete(r.cloud.reliable, r.id)
		r.cloud.mu.Unlock()
		for _, name := range has {
			r.write(journal.Entry{Kind: journal.Terminated, Instance: name})
		}
		r.write(journal.Entry{Kind: journal.Done, Outcome: outcome, Why: why})
	}
	r.mu.Unlock()
	r.door.Close()
	_ = r.lines.Close()
	r.release()
	if outcome == "" {
		r.ended <- errors.New("killed")
	} else {
		r.ended <- nil
	}
}

// series is a job server with runs in this process.
type series struct {
	*site
	rand  *rand.Rand
	cloud *bill
	runs  map[string]*standIn
	mine  sync.Mutex // runs
	who   []member
	ids   []string
	owner map[string]int
	job   string
	ctx   context.Context // of the manager
}

// launch stands in for the process of a run.
func (s *series) launch(j *job, args []string, grant int) (*runProcess, error) {
	resume := slices.Contains(args, "--resume")
	path := args[len(args)-1]
	if resume {
		path = filepath.Join(j.dir, "job")
	} else if text, err := os.ReadFile(path); err != nil || os.WriteFile(filepath.Join(j.dir, "job"), text, 0o600) != nil {
		return nil, errors.New("no file")
	}
	file, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	bounds := &elasticity.Bounds{Granted: grant}
	r := &standIn{cloud: s.cloud, id: j.ID, dir: j.dir, file: file, ended: make(chan error, 1), bounds: bounds, own: file.Resources.Count.Most, want: file.Resources.Count.Most}
	if r.release, err = rundir.HoldUntil(j.dir); err != nil {
		return nil, err
	}
	var past []journal.Entry
	if journalPath := filepath.Join(j.dir, rundir.JournalFile); resume {
		r.lines, past, err = journal.Resume(journalPath, nil)
	} else {
		r.lines, err = journal.Create(journalPath, nil)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range past { // as a controller that takes over a run
		r.clock = max(r.clock, e.Clock)
		if e.Kind == journal.Done {
			r.want, r.paused, r.by = r.own, "", false
		}
		if d, err := e.ScaleDetails(); err == nil {
			r.want, r.paused, r.by = r.own, d.Paused, d.Scheduled
			if d.Want != nil {
				r.want = d.Want.Machines
			}
		}
	}
	submitted, err := config.Load(filepath.Join(j.dir, submittedFile))
	if err != nil {
		return nil, err
	}
	s.cloud.mu.Lock()
	s.cloud.story = append(s.cloud.story, fmt.Sprintf("    %s starts: resume %v, grant %d", j.ID, resume, grant))
	s.cloud.files[j.ID], s.cloud.reliable[j.ID] = submitted, submitted.Reliable.Count
	s.cloud.mu.Unlock()
	details, _ := journal.Pack(journal.StartDetails{Want: journal.Want{Machines: r.own}})
	r.write(journal.Entry{Kind: journal.Start, Details: details})
	if grant >= 0 && !file.IsProgram() { // like elasticity's takeGrant
		switch {
		case r.paused != "" && !r.by:
		case grant > 0:
			r.paused, r.by = "", false
		default:
			r.paused, r.by = "the scheduler", true
		}
		if grant > 0 {
			r.want = grant
		}
		r.scaled("the scheduler's grant")
	}
	r.mu.Lock()
	r.buy()
	r.mu.Unlock()
	if r.door, err = scaling.Serve(j.dir, r, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	s.mine.Lock()
	s.runs[j.ID] = r
	s.mine.Unlock()
	return &runProcess{process: &os.Process{}, ended: r.ended}, nil
}

// open makes the test step a manager itself.
func (s *series) open() {
	m, err := Open(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	m.launcher = s.launch
	ctx, cancel := context.WithCancel(s.t.Context())
	s.Manager, s.ctx = m, ctx
	s.end = func() {
		cancel()
		m.tending.Wait()
		if m.scheduler != nil {
			_ = m.scheduler.file.Close()
			m.scheduler.hosts.close()
			for _, p := range m.scheduler.progress {
				p.close()
			}
		}
		m.release()
		s.end = func() {}
	}
	m.find(ctx)
	s.who = s.members("vision", "speech")
	for _, c := range s.who {
		s.job = strings.NewReplacer("HOME/prices.csv", c.upload("prices.csv", ""), "HOME/catalog.csv", c.upload("catalog.csv", ""), "start_with: 12\n", "", "clocks: 1000000", "clocks: 10, evaluate_every: 1").Replace(localJob)
	}
}

// look is one pass of scheduler and queue.
func (s *series) look() {
	s.cloud.tell("  a look")
	if s.scheduler != nil {
		calls, _ := s.scheduler.decide()
		for _, c := range calls {
			s.scheduler.carryOut(s.ctx, c)
		}
	}
	s.mu.Lock()
	for _, j := range s.jobs {
		j.notBefore, j.Fruitless = time.Time{}, 0
	}
	s.mu.Unlock()
	s.startDue(s.ctx)
}

// alive returns the runs in progress.
func (s *series) alive() (all []*standIn) {
	s.mine.Lock()
	defer s.mine.Unlock()
	for _, id := range s.ids {
		if r := s.runs[id]; r != nil {
			r.mu.Lock()
			if !r.over {
				all = append(all, r)
			}
			r.mu.Unlock()
		}
	}
	return all
}

// rest waits until the manager has seen every end.
func (s *series) rest() {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		seen := true
		s.mu.Lock()
		for id, j := range s.jobs {
			s.mine.Lock()
			r := s.runs[id]
			s.mine.Unlock()
			if r != nil && j.tended {
				r.mu.Lock()
				seen = seen && !r.over
				r.mu.Unlock()
			}
		}
		s.mu.Unlock()
		if seen {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("an end is not seen\n%s", strings.Join(s.cloud.story, "\n"))
		}
	}
}

// step does one action of a group, a neighbour, a fault or time.
func (s *series) step() {
	post := func(what string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		who := s.rand.IntN(len(s.who))
		if owner, known := s.owner[strings.Split(what+"/", "/")[1]]; known && s.rand.IntN(8) > 0 {
			who = owner
		}
		by := s.who[who]
		code, said := by.ask("POST", "/api/v1/jobs"+what, string(text))
		s.cloud.tell("%s %.150s: %d %.150s", what, text, code, strings.TrimSpace(said))
		if code == 201 {
			var j call.Job
			if json.Unmarshal([]byte(said), &j) == nil {
				for _, id := range append(j.Trials, j.Run) {
					s.ids, s.owner[id] = append(s.ids, id), who
				}
			}
		}
	}
	one := func() string { return s.ids[s.rand.IntN(len(s.ids))] }
	run := func(f func(r *standIn)) {
		if all := s.alive(); len(all) > 0 {
			f(all[s.rand.IntN(len(all))])
		}
	}
	few := func() int32 { return int32(s.rand.IntN(9) - 4) }
	switch n := s.rand.IntN(20); {
	case len(s.ids) == 0 || n < 3 && len(s.ids) < 7:
		least := 1 + s.rand.IntN(3)
		count := fmt.Sprintf("%d..%d", least, least+s.rand.IntN(9))
		job := strings.NewReplacer("1..16", count, "reliable: {type: c3.large}", fmt.Sprintf("reliable: {type: c3.large, count: %d}", 1+s.rand.IntN(2))).Replace(s.job)
		if s.scheduler != nil && s.rand.IntN(6) == 0 {
			job += "sweep: {params: {step: log 1e-3..10}, samples: 2, feedback: [{at: 3, keep: 1}]}\n"
		}
		post("", call.Submission{Job: job})
	case n < 5:
		post("/"+one()+"/stop", call.Stop{})
	case n < 7:
		post("/"+one()+"/resume", struct{}{})
	case n < 10:
		post("/"+one()+"/scale", []call.Scale{{Workers: few()}, {Servers: few()}, {Reliable: few()}, {Restore: true}, {Workers: few(), Servers: 2}}[s.rand.IntN(5)])
	case n < 12:
		post("/"+one()+"/scale", []call.Scale{{Pause: true}, {Resume: true}}[s.rand.IntN(2)])
	case n < 13: // on the host itself
		run(func(r *standIn) {
			c := []*pb.Change{{Workers: few()}, {Pause: true}, {Resume: true}, {Restore: true}}[s.rand.IntN(4)]
			s.cloud.tell("neighbour of %s: %v: %v", r.id, c, scaling.Ask(s.t.Context(), r.dir, c, func(*pb.Standing) {}))
		})
	case n < 14:
		run(func(r *standIn) { s.cloud.tell("%s finishes", r.id); r.end("finished", "") })
	case n < 15:
		run(func(r *standIn) { s.cloud.tell("%s is killed", r.id); r.end("", "") })
	case n < 16:
		run(func(r *standIn) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.clock++
			r.write(journal.Entry{Kind: journal.ClockDone, Clock: r.clock, Transient: r.want, Seconds: 1})
		})
	case n < 17:
		run(func(r *standIn) { // a machine is evicted, and another one bought
			r.cloud.mu.Lock()
			has := r.cloud.machines[r.id]
			if len(has) > 0 {
				r.cloud.machines[r.id] = has[1:]
			}
			r.cloud.mu.Unlock()
			if len(has) > 0 {
				r.cloud.tell("%s loses %s", r.id, has[0])
				r.mu.Lock()
				defer r.mu.Unlock()
				r.write(journal.Entry{Kind: journal.Evicted, Instance: has[0]})
				r.buy()
			}
		})
	case n < 18 && s.rand.IntN(4) == 0:
		s.cloud.tell("the job server is killed")
		s.end()
		s.open()
	case n < 18:
		s.mu.Lock()
		d := budget.Decision{}
		if s.rand.IntN(2) == 0 {
			d = budget.Decision{Do: budget.Pause, Why: "its price"}
		}
		s.decided[limited{group: "vision"}] = d
		s.mu.Unlock()
	default:
		s.cloud.tell("time passes")
		for _, r := range s.alive() {
			if s.rand.IntN(2) == 0 {
				r.shrink()
			}
		}
	}
	s.rest()
	if s.rand.IntN(3) > 0 {
		s.look()
	}
}

// settle lets everything settle, and compares grants with what runs.
func (s *series) settle() {
	s.mu.Lock()
	clear(s.decided) // a killed run is not restarted above a limit
	s.mu.Unlock()
	for range 12 {
		for _, r := range s.alive() {
			r.shrink()
		}
		s.look()
		s.rest()
	}
	if s.scheduler == nil {
		return
	}
	for _, r := range s.alive() {
		why, err := s.scheduler.why(s.Manager, r.id)
		s.cloud.mu.Lock()
		has := len(s.cloud.machines[r.id])
		s.cloud.mu.Unlock()
		if err != nil || why.Workers != has && !why.Seen.Ending {
			s.t.Errorf("%s has %d machines, and why says %+v, %v\n%s", r.id, has, why.Grant, err, strings.Join(s.cloud.story, "\n"))
		}
	}
}

// Random sequences of calls by two groups, of a scheduler's decisions, and of faults, with every policy: at no instant does the cloud's
// record have more machines than slots, a job's file or a group's quota allow, and in the end what runs is what was granted.
// TIERML_SEQUENCES is the number of sequences, TIERML_SEED the seed.
func TestNoSequenceOfCallsBreaksABound(t *testing.T) {
	number, seed := 33, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("TIERML_SEQUENCES")); err == nil {
		number = n
	}
	if n, err := strconv.ParseUint(os.Getenv("TIERML_SEED"), 10, 64); err == nil {
		seed = n
	}
	bought, steps := 0, 0
	for i := range number {
		names := append([]string{"none"}, Schedulers...)
		name := names[i%len(names)]
		s := &series{site: newSite(t), rand: rand.New(rand.NewPCG(seed, uint64(i))), runs: map[string]*standIn{}, owner: map[string]int{}}
		s.cloud = &bill{t: t, quota: map[string]int{"vision": 14, "speech": 9}, machines: map[string][]string{}, reliable: map[string]int{}, files: map[string]*config.Job{}}
		s.cloud.tell("sequence %d of seed %d, %s", i, seed, name)
		s.cfg.Quotas = map[string]Quota{"vision": {Machines: 14, Jobs: 3}, "speech": {Machines: 9}}
		s.cfg.MaxRunning, s.cfg.MaxQueued = 3+s.rand.IntN(5), 20
		if name != "none" {
			p, err := sched.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			s.cfg.Scheduler, s.cfg.Slots = p, 4+s.rand.IntN(10)
			s.cloud.slots = s.cfg.Slots
		}
		s.open()
		for range 40 {
			if s.step(); t.Failed() {
				break
			}
			steps++
		}
		s.settle()
		for _, r := range s.alive() {
			r.end("interrupted", "the test")
		}
		s.rest()
		s.end()
		bought += s.cloud.bought
		if t.Failed() {
			return
		}
	}
	t.Logf("%d sequences, %d steps, %d machines bought", number, steps, bought)
	if bought < number {
		t.Errorf("only %d machines were bought", bought)
	}
}
