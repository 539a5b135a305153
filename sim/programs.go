package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/tiers"
)

// Programs describes a job that runs the user's own programs. Times are market time.
type Programs struct {
	Count, Tasks int           // as in programs.Config
	Least        int           // likewise
	Elastic      bool          // likewise
	Rungs        []trials.Rung // of a sweep with the tasks as its trials; empty = none
	TPE          bool          // trials wait for the results of earlier ones, as in trials.Sweep
	Of           int64         // steps per trial
	State        bool          // they have state
	Every        time.Duration // time between saves of the state
	// Fetch is how long a new machine takes to get the workdir, 0 = as for splits (Timing.Load); Setup is the time from
	// then to its first program; Restore is how long it takes to read a state, and Save how long to write a state's
	// changes to the store.
	Fetch, Setup, Restore, Save time.Duration
}

// number returns how many machines each do their part of the work once.
func (p *Programs) number() int { return max(p.Tasks, 1) * p.width() }

// Share returns the share of all programs' work that is done, as some trials are dropped.
func (p *Programs) Share() float64 { return trials.Share(p.Rungs, p.Tasks, p.Of) }

func (p *Programs) width() int {
	if p.Tasks > 0 {
		return 1
	}
	return p.Count
}

// Together reports whether all machines run one program.
func (p *Programs) Together() bool { return p.Tasks == 0 && !p.Elastic && p.Count > 1 }

// Again returns how long a machine whose agent has connected takes until a program runs there.
func (c *Config) Again() time.Duration { return c.Programs.Setup + c.Programs.Restore + c.Timing.Start }

// Undone returns the most work of a machine that an eviction can undo. Changes to the state that fit into the notice
// are saved.
func (c *Config) Undone() time.Duration {
	switch p := c.Programs; {
	case p.Elastic && p.Count > 1: // the other machines have the state
		return 0
	case !p.State:
		return c.forPrograms().Length
	case p.Save >= c.Timing.Notice:
		return p.Every + p.Save
	}
	return 0
}

// forPrograms returns the configuration of the programs' controller.
func (c *Config) forPrograms() programs.Config {
	p := c.Programs
	out := programs.Config{Settings: c.Settings, Count: p.Count, Least: p.Least, Tasks: p.Tasks, Elastic: p.Elastic, State: p.State, SaveWithin: c.Timing.Notice + p.Save + time.Minute,
		Heartbeat: time.Second, OrphanAfter: time.Second}
	out.DeadAfter = 100 * 365 * 24 * time.Hour // simulated machines send no heartbeats: silence means nothing
	if len(p.Rungs) > 0 || p.TPE {
		out.Of, out.Sweep = p.Of, &trials.Sweep{Samples: p.Tasks, Rungs: p.Rungs, TPE: p.TPE}
	}
	for _, pool := range c.Pools { // machines of the size for which the length is declared
		if rate := pool.Type.WorkRate(); rate > 0 {
			out.Length = time.Duration(c.vcpuHours() / p.Share() / float64(p.number()) / rate * float64(time.Hour))
			break
		}
	}
	return out
}

// programWorld has all machines that run programs, and the store.
type programWorld struct {
	w      *world
	all    map[ps.ServerID]*programMachine
	stored map[string]float64 // finished share of a program, from 0 to 1, by manifest
	saves  int
	// Progress with which rank 0 of the newest gang began: a new rank gets its state from there.
	gang  uint64 // the attempt
	begun float64
}

// programMachine is a machine that runs programs one after the other.
type programMachine struct {
	c       *programWorld
	id      ps.ServerID
	rate    float64 // operations per nanosecond
	alive   bool
	set     bool // setup is done
	round   int  // counts starts and ends: events scheduled in an older round are void
	attempt uint64
	works   bool
	each    float64 // operations of this machine's part of the program
	done    float64 // operations done at since
	since   time.Duration
}

func newCast(w *world) *programWorld {
	return &programWorld{w: w, all: map[ps.ServerID]*programMachine{}, stored: map[string]float64{}}
}

func (c *programWorld) hire(id ps.ServerID, rate float64) process {
	cfg := &c.w.cfg
	p := &programMachine{c: c, id: id, alive: true, rate: rate * cfg.FLOPSPerVCPU / cfg.Timing.Speed / float64(time.Second)}
	c.all[id] = p
	return p
}

func (p *programMachine) boot() {
	if p.alive {
		p.report(tiers.Hello{Instance: p.id, Address: string(p.id)})
	}
}

func (p *programMachine) die() {
	p.count()
	p.alive, p.works, p.round = false, false, p.round+1
}

// warned handles an eviction notice: the machine learns it by itself, and its program ends cleanly.
func (p *programMachine) warned() { p.stop(p.c.w.cfg.Programs.State) }

func (p *programMachine) report(r tiers.Report) { p.c.w.step(elasticity.Reported{ID: p.id, Report: r}) }

// laterInRound schedules something that is void after the present round.
func (p *programMachine) laterInRound(d time.Duration, f func()) {
	round := p.round
	p.c.w.after(d, reports, func() {
		if p.alive && p.round == round {
			f()
		}
	})
}

func (c *programWorld) do(a elasticity.Action) {
	send, ok := a.(elasticity.Send)
	if !ok {
		return
	}
	p := c.all[send.ID]
	if p == nil || !p.alive {
		return
	}
	switch do := send.Command.Do.(type) {
	case tiers.RunProgram:
		p.run(do)
	case tiers.SaveProgram:
		if do.Attempt == p.attempt && p.works {
			p.save(false)
		}
	case tiers.StopProgram:
		if do.Attempt == p.attempt {
			p.stop(do.Save)
		}
	}
}

func (c *programWorld) deliverBefore(time.Duration)                 {}
func (c *programWorld) deliverNow(time.Duration) []elasticity.Event { return nil }
func (c *programWorld) deliverAll()                                 {}
func (c *programWorld) skipCuts() bool                              { return false }
func (c *programWorld) settleInstant()                              {}

// run starts a program once the machine has what it needs.
func (p *programMachine) run(do tiers.RunProgram) {
	cfg := &p.c.w.cfg
	p.round++
	p.attempt, p.works, p.each = do.Attempt, false, p.c.each()*float64(cfg.Programs.width())/float64(max(do.Ranks, 1))
	p.done = p.c.begin(do) * p.each
	started := tiers.ProgramStarted{Attempt: p.attempt}
	wait := cfg.Timing.Reply
	takes := func(d time.Duration) (wall float64) {
		wait += d
		return d.Seconds() / cfg.Timing.Speed
	}
	if !p.set {
		p.set = true
		started.Fetch, started.Setup = takes(cmp.Or(cfg.Programs.Fetch, cfg.Timing.Load)), takes(cfg.Programs.Setup)
	}
	if do.Resume != "" {
		started.Restore = takes(cfg.Programs.Restore)
	}
	p.laterInRound(wait, func() {
		p.works, p.since = true, p.c.w.elapsed
		p.report(started)
		p.laterInRound(time.Duration((p.each-p.done)/p.rate)+1, func() { p.end(0, false, cfg.Programs.State) })
		p.feedback(do.Task)
		p.mirror()
	})
}

// feedback reports a trial's loss at each remaining rung. The trials' numbers determine which are better.
func (p *programMachine) feedback(task int) {
	of := p.c.w.cfg.Programs
	for _, rung := range of.Rungs {
		at := p.each * float64(rung.At) / float64(of.Of)
		if at <= p.done {
			continue
		}
		loss := rand.New(rand.NewPCG(uint64(task), 0)).Float64()
		p.laterInRound(time.Duration((at-p.done)/p.rate)+1, func() {
			p.report(tiers.ProgramAdvanced{Attempt: p.attempt, Step: rung.At, HasLoss: true, Loss: loss})
		})
	}
}

// begin returns a program's progress when a rank begins.
func (c *programWorld) begin(do tiers.RunProgram) float64 {
	if do.Elastic { // the other machines have the state
		done := c.stored[do.Resume]
		for _, other := range c.all {
			if other.works {
				other.count()
				done = max(done, other.done/other.each)
			}
		}
		return done
	}
	if do.Rank == 0 {
		c.gang, c.begun = do.Attempt, c.stored[do.Resume]
	}
	if do.Resume == "" && do.Attempt == c.gang {
		return c.begun
	}
	return c.stored[do.Resume]
}

// each returns the work per machine of one program, with the most machines that it may have.
func (c *programWorld) each() float64 {
	p := c.w.cfg.Programs
	return c.w.cfg.Job.Work / p.Share() / float64(p.number())
}

// mirror saves periodically.
func (p *programMachine) mirror() {
	if s := p.c.w.cfg.Programs; s.State && s.Every > 0 {
		p.laterInRound(s.Every, func() {
			p.save(false)
			p.mirror()
		})
	}
}

// count adds the work done since the last count.
func (p *programMachine) count() {
	if p.works {
		now := p.c.w.elapsed
		p.c.w.worked(p.since, now)
		p.done, p.since = min(p.done+p.rate*float64(now-p.since), p.each), now
	}
}

// save mirrors the present state; the program continues meanwhile.
func (p *programMachine) save(final bool) {
	p.count()
	p.c.saves++
	manifest, done, attempt := fmt.Sprint(p.c.saves), p.done/p.each, p.attempt
	p.laterInRound(p.c.w.cfg.Programs.Save, func() {
		p.c.stored[manifest] = done
		p.report(tiers.ProgramSaved{Attempt: attempt, Manifest: manifest, Final: final})
	})
}

// stop ends the running program, on a user's request.
func (p *programMachine) stop(save bool) {
	if !p.works {
		if p.alive && p.attempt > 0 {
			p.round++
			p.laterInRound(p.c.w.cfg.Timing.Reply, func() { p.report(tiers.ProgramExited{Attempt: p.attempt, Phase: "setup", Asked: true}) })
		}
		return
	}
	p.end(143, true, save)
}

// end ends the program, and saves its last changes before it reports the end.
func (p *programMachine) end(code int, asked, save bool) {
	p.count()
	p.round++
	p.works = false
	if save {
		p.save(true)
		p.laterInRound(p.c.w.cfg.Programs.Save, func() { p.report(tiers.ProgramExited{Attempt: p.attempt, Code: code, Phase: "run", Asked: asked}) })
		return
	}
	p.laterInRound(p.c.w.cfg.Timing.Reply, func() { p.report(tiers.ProgramExited{Attempt: p.attempt, Code: code, Phase: "run", Asked: asked}) })
}
