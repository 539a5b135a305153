package programs_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

var (
	start = time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)
	pool  = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "m", Class: market.Spot}
)

// always buys what is missing in one pool, as far as machines are available.
type always struct{ w *world }

func (always) Name() string { return "always" }

func (p always) Plan(s bidding.State) bidding.Plan {
	missing, held := s.Want.Machines, 0
	for _, a := range s.Held {
		if held += a.Count; !a.Warned && !a.Draining {
			missing -= a.Count
		}
	}
	if p.w.room > 0 {
		missing = min(missing, p.w.room-held)
	}
	if missing <= 0 {
		return bidding.Plan{}
	}
	return bidding.Plan{Acquire: []bidding.Acquire{{Pool: pool, Bid: market.Dollar, Count: missing}}}
}

// world simulates machines, whose programs advance a step a second and are done at the last one, and the run's store.
type world struct {
	gone     []provisioner.Instance // a cloud's answer about machines of its predecessor
	forgets  bool                   // programs do not read their state
	t        *testing.T
	cfg      programs.Config
	r        *restart.Controller
	now      time.Time
	machines map[ps.ServerID]*machine
	order    []ps.ServerID
	entries  []journal.Entry
	store    map[string]int64 // steps by manifest
	attempts map[uint64]string
	settings map[uint64]map[string]string // that attempts began with
	saves    int
	life     int
	outcome  string
	answer   error // to the last request
	refuses  int   // launches
	room     int   // machines available at a time; 0 = any number
	// exit, if set, determines how an attempt ends at a step instead of continuing.
	exit func(run tiers.RunProgram, step int64) (tiers.ProgramExited, bool)
	old  []elasticity.Reported // earlier reports, repeated now and then

	of       int64                         // steps; 0 = const of
	speed    func(map[string]string) int64 // steps a second, by the settings; nil = 1
	killAt   int                           // the controller is killed after this many actions; 0 = never
	acted    int
	advances int // steps of all machines
}

type machine struct {
	id          ps.ServerID
	instance    provisioner.Instance
	dead, mute  bool
	anew        bool // its agent has restarted, and has received nothing since
	run         tiers.RunProgram
	runs, away  bool // away: its store does not answer
	step        int64
	saveIn, age int
	peers       []string
	told        uint64 // the number of their command: this world answers within a step, before later commands
	// the state of the newest attempt, reported again to a controller that takes over
	started, saved, exited tiers.Report
}

const of = 40

// lossOfTask orders trials: of nine, 4 is the best and 0 the second.
func lossOfTask(task int) float64 { return float64((task*2+1)%9) + 1 }

func newWorld(t *testing.T, cfg programs.Config) *world { return newWorldOf(t, cfg, 0) }

// newWorldOf returns a world with room for this many machines at a time.
func newWorldOf(t *testing.T, cfg programs.Config, room int) *world {
	w := emptyWorld(t, cfg)
	w.room = room
	w.again()
	return w
}

// emptyWorld returns a world without a controller.
func emptyWorld(t *testing.T, cfg programs.Config) *world {
	return &world{t: t, cfg: cfg, now: start, machines: map[ps.ServerID]*machine{}, store: map[string]int64{}, attempts: map[uint64]string{},
		settings: map[uint64]map[string]string{}}
}

// again starts a controller: the first, or a successor that has only the journal.
func (w *world) again() {
	w.t.Helper()
	rules, err := market.Rules("ec2-now")
	if err != nil {
		w.t.Fatal(err)
	}
	w.life++
	c := w.cfg
	c.Settings = tempo.Settings{Speed: 1, BootWithin: 20 * time.Second, PlanEvery: time.Hour, DeadAfter: 4 * time.Second, BrokenAfter: 2 * time.Second,
		Lag: 2 * time.Second, RetryCapacity: 5 * time.Second}
	if w.room > 0 {
		c.Settings.PlanEvery = 2 * time.Second // it changes
	}
	c.Of, c.SaveWithin, c.Heartbeat, c.OrphanAfter, c.FirstID = cmp.Or(w.of, of), 8*time.Second, time.Second, time.Minute, uint64(w.life)<<32
	rc := restart.Config{
		Settings: c.Settings, Run: fmt.Sprintf("run-%d", w.life), Want: bidding.Want{Machines: c.Count}, Policy: always{w}, Rules: rules, AskAgain: time.Minute,
		Pools: []elasticity.Pool{{Pool: pool, Type: market.InstanceType{Name: "m", VCPU: 4, OnDemand: market.Dollar},
			History: market.NewHistory([]market.PricePoint{{At: start, Price: market.Dollar / 4}})}},
	}
	if w.life > 1 {
		if rc.Past, err = elasticity.ReadPast(w.entries); err != nil {
			w.t.Fatal(err)
		}
		if c.Past, err = programs.ReadPast(w.entries, cmp.Or(c.Least, c.Count), c.Count, c.Tasks, c.Elastic); err != nil {
			w.t.Fatal(err)
		}
		c.TakesOver, rc.Adopts = true, true
	}
	w.r = programs.New(rc, c)
	w.tell(elasticity.Wake{})
	if life := w.life; life > 1 {
		w.list()
		for _, id := range slices.Clone(w.order) {
			m := w.machines[id]
			w.call(m)
			for _, r := range []tiers.Report{m.started, m.saved, m.exited} {
				if r != nil && w.life == life {
					w.report(m, r)
				}
			}
		}
	}
}

func (w *world) tell(e elasticity.Event) {
	w.now = w.now.Add(time.Millisecond)
	life := w.life
	for _, a := range slices.Clone(w.r.Step(w.now, e)) {
		if w.life != life {
			return // its requester is dead
		}
		if w.acted++; w.acted == w.killAt {
			w.again()
			return
		}
		w.do(a)
	}
}

func (w *world) report(m *machine, r tiers.Report) {
	if m.dead {
		return
	}
	switch r.(type) {
	case tiers.ProgramStarted:
		m.started, m.saved, m.exited = r, nil, nil
	case tiers.ProgramSaved, tiers.ProgramSaveFailed:
		m.saved = r
	case tiers.ProgramExited:
		m.exited = r
	}
	if m.mute {
		return
	}
	e := elasticity.Reported{ID: m.id, Report: r}
	w.old = append(w.old, e)
	w.tell(e)
}

func (w *world) do(a elasticity.Action) {
	switch a := a.(type) {
	case elasticity.Record:
		if err := a.Entry.Validate(); err != nil {
			w.t.Error(err)
		}
		w.entries = append(w.entries, a.Entry)
	case elasticity.Launch:
		if w.refuses > 0 {
			w.refuses--
			w.tell(elasticity.LaunchFailed{Token: a.Request.Token, Err: provisioner.ErrNoCapacity})
			return
		}
		var got []provisioner.Instance
		for range a.Request.Count {
			id := ps.ServerID(fmt.Sprintf("i-%d", len(w.order)+1))
			w.order = append(w.order, id)
			i := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: a.Request.Pool, Token: a.Request.Token, State: provisioner.Running,
				Launched: w.now.Truncate(time.Second)}
			w.machines[id] = &machine{id: id, instance: i}
			got = append(got, i)
		}
		w.tell(elasticity.Launched{Token: a.Request.Token, Instances: got})
		for _, i := range got {
			w.call(w.machines[ps.ServerID(i.ID)])
		}
	case elasticity.Terminate:
		for _, id := range a.IDs {
			w.end(w.machines[ps.ServerID(id)], market.ByUser)
		}
	case elasticity.Send:
		if m := w.machines[a.ID]; m != nil && !m.dead && !m.mute {
			w.obey(m, a.Command)
			w.report(m, tiers.Answer{ID: a.Command.ID})
		}
	case elasticity.Scaled:
		w.answer = a.Err
	case elasticity.Finish:
		w.outcome = a.Outcome
	}
}

func (w *world) call(m *machine) {
	hello := tiers.Hello{Instance: m.id, Address: string(m.id) + ":1"}
	if m.run.Attempt > 0 && !m.anew {
		hello.Incarnation = ps.Incarnation(m.run.Attempt)
	}
	w.report(m, hello)
}

func (w *world) obey(m *machine, c tiers.Command) {
	switch do := c.Do.(type) {
	case tiers.RunProgram:
		if other, used := w.attempts[do.Attempt]; used && (do.Ranks == 1 || do.Elastic || other != w.team(do)) {
			w.t.Errorf("attempt %d runs %s and %s", do.Attempt, other, do.Key)
		}
		w.attempts[do.Attempt], w.settings[do.Attempt] = w.team(do), do.Settings
		m.run, m.runs, m.anew, m.step, m.saveIn, m.age, m.peers = do, true, false, w.store[do.Resume], 5, 0, do.Peers
		if do.Resume != "" && w.store[do.Resume] == 0 {
			w.t.Errorf("%s resumes from %q, which nobody saved", do.Key, do.Resume)
		}
		w.report(m, tiers.ProgramStarted{Attempt: do.Attempt, Step: m.step})
		if w.forgets {
			m.step = 0
		}
	case tiers.SetPeers:
		if m.run.Attempt == do.Attempt && c.ID > m.told {
			m.peers, m.told = do.Peers, c.ID
		}
	case tiers.SaveProgram:
		if m.runs && m.run.Attempt == do.Attempt && !m.away {
			w.save(m, do.Round, false)
		}
	case tiers.StopProgram:
		if m.runs && m.run.Attempt == do.Attempt {
			w.stopped(m, do.Save)
		}
	}
}

func (w *world) save(m *machine, round uint64, final bool) {
	if !w.cfg.State || m.step == 0 && !final {
		return
	}
	w.saves++
	manifest := fmt.Sprintf("%s-%d", m.run.Key, w.saves)
	w.store[manifest] = m.step
	w.report(m, tiers.ProgramSaved{Attempt: m.run.Attempt, Manifest: manifest, Digest: "d", Step: m.step, Round: round, Final: final})
}

// stopped ends a program that received a stop request.
func (w *world) stopped(m *machine, save bool) {
	m.runs = false
	if save && m.step > 0 {
		w.save(m, 0, true)
	} else if save {
		w.report(m, tiers.ProgramSaveFailed{Attempt: m.run.Attempt, Error: "nothing to save", Final: true})
	}
	w.report(m, tiers.ProgramExited{Attempt: m.run.Attempt, Code: 143, Phase: "run", Asked: true})
}

func (w *world) end(m *machine, by market.EndedBy) {
	if m == nil || m.dead {
		return
	}
	m.dead = true
	w.tell(elasticity.Disconnected{ID: m.id})
	w.tell(elasticity.InstanceEnded{Instance: provisioner.Instance{ID: provisioner.InstanceID(m.id), Pool: pool, Token: m.instance.Token,
		State: provisioner.Terminated, Launched: m.instance.Launched, Ended: w.now.Truncate(time.Second), EndedBy: by}})
}

// warn announces an eviction: to the machine, whose agent ends its program, and to the controller.
func (w *world) warn(m *machine) {
	if m.dead {
		return
	}
	w.tell(elasticity.Warned{ID: m.id, Deadline: w.now.Add(5 * time.Second)})
	if m.runs {
		w.stopped(m, w.cfg.State)
	}
}

func (w *world) list() {
	all := slices.Clone(w.gone)
	for _, id := range w.order {
		if m := w.machines[id]; !m.dead {
			all = append(all, m.instance)
		}
	}
	w.tell(elasticity.Listed{Instances: all, Asked: w.now})
}

// second advances the world by one second.
func (w *world) second() {
	next := w.now.Add(time.Second)
	for w.outcome == "" && w.r.NextWake().Before(next) {
		if wake := w.r.NextWake().Add(-time.Millisecond); wake.After(w.now) {
			w.now = wake
		}
		w.tell(elasticity.Wake{})
	}
	if next.After(w.now) {
		w.now = next
	}
	for _, id := range slices.Clone(w.order) {
		m := w.machines[id]
		if m.dead || m.run.Attempt == 0 {
			continue
		}
		w.report(m, tiers.Heartbeat{})
		if m.runs {
			w.advance(m)
		}
	}
	w.tell(elasticity.PricesKnown{At: w.now})
}

func (w *world) advance(m *machine) {
	if m.step++; w.speed != nil {
		m.step += w.speed(m.run.Settings) - 1
	}
	m.age++
	w.advances++
	w.report(m, tiers.ProgramAdvanced{Attempt: m.run.Attempt, Step: m.step, HasLoss: true, Loss: lossOfTask(m.run.Task)})
	if !m.runs {
		return
	}
	if w.exit != nil {
		if e, ends := w.exit(m.run, m.step); ends {
			m.runs = false
			if e.Phase == "run" && e.Code == 0 {
				w.save(m, 0, true)
			}
			w.report(m, e)
			return
		}
	}
	if m.step >= cmp.Or(w.of, of) {
		m.runs = false
		w.save(m, 0, true)
		w.report(m, tiers.ProgramExited{Attempt: m.run.Attempt, Phase: "run"})
		return
	}
	if m.saveIn--; m.saveIn == 0 && (m.run.Ranks == 1 || m.run.Elastic) {
		m.saveIn = 5
		w.save(m, 0, false)
	}
}

func (w *world) seconds(n int) {
	for range n {
		if w.outcome == "" {
			w.second()
		}
	}
}

func (w *world) lines(kind journal.Kind) (out []journal.Entry) {
	for _, e := range w.entries {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) running(key string) *machine {
	for _, id := range w.order {
		if m := w.machines[id]; m.runs && !m.dead && m.run.Key == key {
			return m
		}
	}
	return nil
}

// ends returns the outcomes of a program's attempts.
func (w *world) ends(key string) (out []string) {
	for _, e := range w.lines(journal.ProgramEnd) {
		if e.Program == key {
			out = append(out, e.Outcome)
		}
	}
	return out
}

// Whatever happens, each program continues from the newest saved state, and when calm returns all are done, each once, no machine is left,
// and every machine has a bill.
func TestRandomWorlds(t *testing.T) {
	for name, cfg := range kinds {
		for seed := range uint64(60) {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(t, cfg)
				for step := 0; step < 40 && w.outcome == ""; step++ {
					w.disturb(r)
				}
				w.seconds(1500)
				if w.outcome != "finished" {
					t.Fatalf("the run is %q; the last line: %+v", w.outcome, w.entries[len(w.entries)-1])
				}
				w.check()
			})
		}
	}
}

func (w *world) disturb(r *rand.Rand) {
	if len(w.order) == 0 {
		w.seconds(1)
		return
	}
	m := w.machines[w.order[len(w.order)-1-r.IntN(min(len(w.order), 4))]]
	switch r.IntN(14) {
	case 0:
		w.warn(m)
		w.seconds(r.IntN(4))
		w.end(m, market.ByProvider)
	case 1:
		w.end(m, market.ByProvider)
	case 2:
		m.mute = true // permanently
	case 3:
		if !m.dead {
			w.tell(elasticity.Disconnected{ID: m.id})
			w.call(m)
		}
	case 4:
		w.refuses = r.IntN(3)
	case 5:
		if r.IntN(3) == 0 {
			w.again()
		}
	case 6: // the controller was away
		w.now = w.now.Add(time.Duration(r.IntN(60)) * time.Second)
		w.tell(elasticity.Wake{})
	case 7:
		w.list()
	case 8: // repeated, however old
		for range r.IntN(5) {
			if e := w.old[r.IntN(len(w.old))]; !is[tiers.Hello](e) && !is[tiers.Crashed](e) {
				w.tell(e)
			}
		}
	case 9: // a restarted agent
		if m.runs && !m.dead {
			m.runs, m.anew, m.started, m.saved, m.exited = false, true, nil, nil, nil
			w.report(m, tiers.Hello{Instance: m.id, Address: "again"})
		}
	case 10:
		if !m.dead {
			w.tell(elasticity.Warned{ID: m.id, Rebalance: true})
		}
	default:
		w.seconds(r.IntN(9))
	}
}

func is[R tiers.Report](e elasticity.Reported) bool {
	_, ok := e.Report.(R)
	return ok
}

// check reads the journal of a run that has ended.
func (w *world) check() {
	w.t.Helper()
	newest := map[string]int64{} // step of the newest state, of programs on one machine
	at := map[string]uint64{}
	open := map[string]bool{}
	for _, e := range w.entries {
		switch e.Kind {
		case journal.Launch:
			open[e.Instance] = true
		case journal.Charge:
			delete(open, e.Instance)
		case journal.ProgramStart:
			if e.Generation <= at[e.Program] {
				w.t.Errorf("attempt %d of %s after %d", e.Generation, e.Program, at[e.Program])
			}
			if at[e.Program] = e.Generation; w.single() && e.Clock != newest[e.Program] {
				w.t.Errorf("%s continues at step %d; its newest state is of %d", e.Program, e.Clock, newest[e.Program])
			}
		case journal.ProgramSaved:
			if e.Generation != at[e.Program] {
				w.t.Errorf("attempt %d of %s has saved while %d ran", e.Generation, e.Program, at[e.Program])
			}
			newest[e.Program] = e.Clock
		}
	}
	for _, id := range w.order {
		if !w.machines[id].dead {
			w.t.Errorf("%s is left", id)
		}
		if open[string(id)] {
			w.t.Errorf("%s has no bill", id)
		}
	}
	if w.cfg.Sweep != nil {
		w.checkSettings()
	}
	number := w.cfg.Tasks
	if number == 0 {
		number = w.cfg.Count
	}
	dropped := map[string]bool{}
	for _, e := range w.lines(journal.ProgramDropped) {
		dropped[e.Program] = true
	}
	for i := range number {
		key := programs.Key(w.cfg.Tasks, i)
		ends := w.ends(key)
		if w.cfg.Sweep != nil && len(w.cfg.Sweep.Rungs) > 0 && lossOfTask(i) > lossOfTask(0) {
			if !dropped[key] || slices.Contains(ends, journal.Finished) {
				w.t.Errorf("%s is not among the best, and ended with %v", key, ends)
			}
			continue
		}
		if n := len(ends); n == 0 || ends[n-1] != journal.Finished || slices.Index(ends, journal.Finished) != n-1 && w.single() {
			w.t.Errorf("%s ended with %v", key, ends)
		}
		if w.cfg.State && newest[key] != of {
			w.t.Errorf("the last state of %s is of step %d", key, newest[key])
		}
	}
}

// checkSettings: each trial keeps its settings from its first start to its last, and its machine gets them; with TPE no trial begins before
// there are enough results.
func (w *world) checkSettings() {
	w.t.Helper()
	s, of, results := w.cfg.Sweep, map[string]string{}, map[string]bool{}
	for _, e := range w.entries {
		switch e.Kind {
		case journal.ProgramStep:
			if e.Round > 0 {
				results[e.Program] = true
			}
		case journal.ProgramEnd:
			if e.Outcome == journal.Finished {
				results[e.Program] = true
			}
		case journal.ProgramStart:
			var d journal.ProgramStartDetails
			if err := json.Unmarshal(e.Details, &d); err != nil || len(d.Settings) != len(s.Ranges) {
				w.t.Errorf("%s begins with %s: %v", e.Program, e.Details, err)
			}
			settings, began := of[e.Program]
			if of[e.Program] = fmt.Sprint(d.Settings); began && settings != of[e.Program] || fmt.Sprint(w.settings[e.Generation]) != of[e.Program] {
				w.t.Errorf("%s has %v, and had %v before; its machine has %v", e.Program, d.Settings, settings, w.settings[e.Generation])
			}
			var i int
			if fmt.Sscanf(e.Program, "task-%d", &i); !s.Ready(i, len(results)) {
				w.t.Errorf("%s begins after %d results", e.Program, len(results))
			}
		}
	}
}
