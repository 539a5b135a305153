package cost

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Programs is the result of a run of programs of the user's own.
type Programs struct {
	Tasks  int `json:"tasks,omitempty"` // of an array; 0 = one program on all machines together
	Done   int `json:"done"`            // tasks, or 1
	Failed int `json:"failed,omitempty"`
	// Cancelled are tasks that a user has stopped, and Again counts attempts beyond the first of each task or rank.
	Cancelled int   `json:"cancelled,omitempty"`
	Again     int   `json:"again,omitempty"`
	Of        int64 `json:"of,omitempty"` // the step at which a program is done
	Step      int64 `json:"step,omitempty"`
	Attempts  int   `json:"attempts"`
	Lost      int   `json:"lost"`     // attempts lost with machines
	Stopped   int   `json:"stopped"`  // in an orderly way, with their state saved
	Failures  int   `json:"failures"` // of the programs themselves
	// Others are attempts that ended because another rank had failed.
	Others int `json:"ended_with_others,omitempty"`
	Saves  int `json:"saves,omitempty"`
	// State is the total size of the newest states, in bytes.
	State int64 `json:"state_bytes,omitempty"`
	// WorkEach is the undisturbed work of one program on one machine, in floating-point operations at the machine's declared rate; 0 = none
	// has succeeded yet.
	WorkEach float64 `json:"work_each,omitempty"`
	// Cores is how many cores' worth of processor time the programs took while they ran, Wanted what they would have taken if no thread had
	// waited for a core, Memory the most bytes that one of their processes
	// held, and Wall how many wall-clock seconds one that has ended well took on machines of the type On; 0 = unknown.
	Cores  float64 `json:"cores,omitempty"`
	Wanted float64 `json:"wanted_cores,omitempty"`
	Memory int64   `json:"memory_bytes,omitempty"`
	Wall   float64 `json:"wall_seconds,omitempty"`
	On     string  `json:"on,omitempty"`
	// Fetch (of the workdir), Setup and Restore are mean wall-clock seconds on the machines that needed them.
	Fetch   float64 `json:"fetch_seconds,omitempty"`
	Setup   float64 `json:"setup_seconds,omitempty"`
	Restore float64 `json:"restore_seconds,omitempty"`
	// Save is the mean duration of the latest mirrorings of states, in wall-clock seconds.
	Save float64 `json:"save_seconds,omitempty"`
	Use  *Use    `json:"use,omitempty"`
	// Trials of a sweep that have started, the best first.
	Dropped int     `json:"dropped,omitempty"`
	Trials  []Trial `json:"trials,omitempty"`
	// Members are the ranks or tasks that have started, by number.
	Members []Member `json:"members,omitempty"`
}

// attempt is one rank's or task's time on a machine.
type attempt struct {
	program, instance      string
	number                 uint64
	began                  time.Time // it started running; zero = it never did
	fetch, setup, restore  time.Duration
	saved                  time.Time     // when its state was last saved
	lastSave               time.Duration // how long that took
	ended                  time.Time
	outcome                string
	fetchSecs              float64 // wall clock
	setupSecs, restoreSecs float64
	withOther              bool      // it ended because another rank had failed
	repeats                bool      // it started before the step of its state
	there                  time.Time // it reached that step; zero = it has not
	cpu, wait              float64   // seconds of processor time, and of threads waiting for it; 0 = unknown
	memory                 int64
}

// running tracks the user's own programs in a journal.
type running struct {
	attempts  []*attempt
	newest    map[string]*attempt
	state     map[string]int64 // size of the newest, by program
	steps     map[string]int64
	saves     int
	took      float64 // wall-clock seconds, by all saves
	cancelled map[string]bool
	members   map[string]*memberFacts
}

func (l *Ledger) addProgram(e journal.Entry) {
	p := &l.programs
	if e.Outcome == journal.Cancelled {
		if p.cancelled == nil {
			p.cancelled = map[string]bool{}
		}
		p.cancelled[e.Program] = true
		return
	}
	if p.newest == nil {
		p.newest, p.state, p.steps = map[string]*attempt{}, map[string]int64{}, map[string]int64{}
	}
	before := len(p.attempts)
	a := p.newest[e.Program]
	if a != nil && e.Kind == journal.ProgramEnd && !a.ended.IsZero() && a.number == e.Generation && e.Generation > 0 {
		return // a controller that took over the run repeats it
	}
	if a != nil && (a.number != e.Generation || !a.ended.IsZero()) && e.Kind != journal.ProgramStep {
		a = nil
	}
	switch e.Kind {
	case journal.ProgramStart:
		if a == nil {
			a = p.begin(e)
		}
		a.began = e.T
		var d journal.ProgramStartDetails
		if json.Unmarshal(e.Details, &d) == nil {
			a.fetchSecs, a.setupSecs, a.restoreSecs = d.Fetch, d.Setup, d.Restore
			a.fetch, a.setup, a.restore = l.seconds(d.Fetch), l.seconds(d.Setup), l.seconds(d.Restore)
		}
	case journal.ProgramStep:
		p.steps[e.Program] = e.Clock
		switch {
		case a == nil || a.number != e.Generation:
		case e.Redone:
			a.repeats = true
		case a.repeats && a.there.IsZero():
			a.there = e.T
		}
	case journal.ProgramSaved:
		p.saves++
		p.took += e.Seconds
		p.state[e.Program] = e.Bytes
		if a != nil {
			a.saved, a.lastSave = e.T, l.seconds(e.Seconds)
		}
	case journal.ProgramEnd:
		if a == nil {
			a = p.begin(e) // it never ran
		}
		a.ended, a.outcome, a.withOther = e.T, e.Outcome, e.Why == journal.FailedElsewhere
		a.cpu, a.wait, a.memory = e.CPU, e.Wait, e.Memory
		if e.Clock > 0 {
			p.steps[e.Program] = e.Clock
		}
	}
	p.addMember(e, len(p.attempts) > before)
}

func (p *running) begin(e journal.Entry) *attempt {
	a := &attempt{program: e.Program, instance: e.Instance, number: e.Generation}
	p.attempts = append(p.attempts, a)
	p.newest[e.Program] = a
	return a
}

// seconds converts wall-clock seconds to market time.
func (l *Ledger) seconds(wall float64) time.Duration {
	return l.clock.ToMarket(time.Duration(wall * float64(time.Second)))
}

// useful returns when an attempt did work that counts, and wasted when it did work that is repeated: after its last saved state, unless it
// was stopped in an orderly way. Steps that an attempt repeats, because it started before the step of its state, are neither.
func (a *attempt) useful(asOf time.Time) (useful, wasted interval) {
	if a.began.IsZero() {
		return interval{}, interval{}
	}
	end := a.ended
	if end.IsZero() {
		end = asOf
	}
	began := a.began
	switch {
	case a.repeats && a.there.IsZero(): // it never reached the step of its state again
		return interval{end, end}, interval{end, end}
	case a.repeats:
		began = a.there
	}
	switch kept := a.saved; {
	case a.outcome == "" || a.outcome == journal.Finished || a.outcome == journal.Stopped:
		return interval{began, end}, interval{}
	case kept.IsZero():
		return interval{began, began}, interval{began, end}
	case kept.Before(began): // it had already saved this before
		return interval{began, began}, interval{began, end}
	default:
		return interval{began, kept}, interval{kept, end}
	}
}

// programPiece is a piece with the program that it was used for.
type programPiece struct {
	piece
	program string
}

// uses returns the periods of a machine's life in which programs were prepared or ran on it.
func (p *running) uses(m *machine, asOf time.Time) (out []programPiece) {
	from := m.usage.Start
	if len(m.joined) > 0 {
		from = m.joined[0].from
	}
	for _, a := range p.attempts {
		if a.instance != m.id {
			continue
		}
		add := func(use int, i interval) {
			if i.from.Before(from) {
				i.from = from
			}
			if i.to.After(i.from) {
				out = append(out, programPiece{piece{i, use}, a.program})
				from = i.to
			}
		}
		if a.began.IsZero() {
			add(setup, interval{from, a.ended})
			continue
		}
		prepared := a.began.Add(-a.restore)
		add(restoring, interval{prepared.Add(-a.setup - a.fetch), prepared.Add(-a.setup)})
		add(setup, interval{prepared.Add(-a.setup), prepared})
		add(restoring, interval{prepared, a.began})
		useful, wasted := a.useful(asOf)
		add(redone, interval{a.began, useful.from})
		add(working, useful)
		add(redone, wasted)
	}
	return out
}

// piecesOf splits the life of a machine that runs programs wherever its use changes.
func (p *running) piecesOf(m *machine, asOf time.Time) []piece {
	life, uses := m.life(asOf), p.uses(m, asOf)
	cuts := []time.Time{life.from, life.to, m.noticed}
	for _, u := range uses {
		cuts = append(cuts, u.from, u.to)
	}
	cuts = slices.DeleteFunc(cuts, func(t time.Time) bool { return t.Before(life.from) || t.After(life.to) })
	slices.SortFunc(cuts, time.Time.Compare)
	var out []piece
	for i := 1; i < len(cuts); i++ {
		if piece := (piece{interval{cuts[i-1], cuts[i]}, 0}); piece.length() > 0 {
			piece.use = m.programUse(piece.from, uses)
			out = append(out, piece)
		}
	}
	return out
}

func (m *machine) programUse(t time.Time, uses []programPiece) int {
	for _, u := range uses {
		if u.holds(t) {
			return u.use
		}
	}
	switch {
	case !m.noticed.IsZero() && !t.Before(m.noticed):
		return flush
	case len(uses) == 0 || t.Before(uses[0].from):
		return startup
	}
	return idle
}

// worked returns the useful time without the final save of an attempt's state.
func (a *attempt) worked(asOf time.Time) time.Duration {
	useful, _ := a.useful(asOf)
	if (a.outcome == journal.Finished || a.outcome == journal.Stopped) && !a.saved.Before(a.began) {
		useful.to = a.saved.Add(-a.lastSave)
	}
	return max(useful.to.Sub(useful.from), 0)
}

// programWork returns the work that counts, in floating-point operations at the machines' declared rates.
func (l *Ledger) programWork(asOf time.Time) (sum float64, each map[string]float64) {
	each = map[string]float64{}
	for _, a := range l.programs.attempts {
		m := l.machines[a.instance]
		if m == nil {
			continue
		}
		useful, _ := a.useful(asOf)
		work := l.clock.ToWall(useful.length()).Seconds() * l.types[m.usage.Pool.Type].FLOPS
		sum += work
		each[a.program] += l.clock.ToWall(a.worked(asOf)).Seconds() * l.types[m.usage.Pool.Type].FLOPS
	}
	return sum, each
}

// mean averages over those that took any time.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) {
	if v > 0 {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m *mean) value() float64 { return m.sum / float64(max(m.n, 1)) }

// Programs summarises a run of programs as of a given time; nil = the run trains an application.
func (l *Ledger) Programs(asOf time.Time) *Programs {
	out := l.ran(asOf)
	if out != nil && l.start.Program.Sweep {
		if bills, err := l.bills(asOf); err == nil { // without prices there are no costs of trials either
			out.Trials = l.trialsOf(bills, asOf)
		}
	}
	return out
}

// ran is Programs without trials.
func (l *Ledger) ran(asOf time.Time) *Programs {
	d := l.start.Program
	if d == nil {
		return nil
	}
	p := &l.programs
	out := &Programs{Tasks: d.Tasks, Of: d.Of, Attempts: len(p.attempts), Saves: p.saves, Cancelled: len(p.cancelled), Again: len(p.attempts) - len(p.newest)}
	_, each := l.programWork(asOf)
	ended, all := 0, 0.0
	var fetches, setups, restores mean
	for _, a := range p.attempts {
		switch a.outcome {
		case journal.Lost:
			if a.withOther {
				out.Others++
				break
			}
			out.Lost++
		case journal.Stopped:
			out.Stopped++
		case journal.Failure:
			out.Failures++
		}
		fetches.add(a.fetchSecs)
		setups.add(a.setupSecs)
		restores.add(a.restoreSecs)
		if p.newest[a.program] != a || p.cancelled[a.program] {
			continue
		}
		switch a.outcome {
		case journal.Finished:
			ended++
			all += each[a.program]
		case journal.Failure:
			out.Failed++
		}
	}
	l.measured(out, asOf)
	out.Use = l.Use()
	out.Members = p.list(l.machines, asOf)
	out.Fetch, out.Setup, out.Restore = fetches.value(), setups.value(), restores.value()
	if p.saves > 0 {
		out.Save = p.took / float64(p.saves)
	}
	for _, n := range p.state {
		out.State += n
	}
	if ended > 0 {
		out.WorkEach = all / float64(ended)
	}
	for _, f := range p.members {
		if f.dropped != "" {
			out.Dropped++
		}
	}
	if out.Done = ended; d.Tasks == 0 {
		out.Done = min(ended/max(len(p.newest), 1), 1)
		for _, step := range p.steps {
			out.Step = max(out.Step, step)
		}
	}
	return out
}

// measured computes what the programs used while they ran, and how long those that succeeded took on machines of one type.
func (l *Ledger) measured(out *Programs, asOf time.Time) {
	p := &l.programs
	var cpu, wait, ran float64
	wall, on := map[string]float64{}, map[string]string{}
	for _, a := range p.attempts {
		m := l.machines[a.instance]
		if m == nil || a.began.IsZero() {
			continue
		}
		seconds := l.clock.ToWall(a.worked(asOf)).Seconds()
		if a.cpu > 0 && seconds > 0 {
			cpu, wait, ran = cpu+a.cpu, wait+a.wait, ran+seconds
		}
		out.Memory = max(out.Memory, a.memory)
		wall[a.program] += seconds
		if kind := m.usage.Pool.Type; on[a.program] == "" || on[a.program] == kind {
			on[a.program] = kind
		} else {
			on[a.program] = severalTypes
		}
	}
	if ran > 0 {
		out.Cores, out.Wanted = cpu/ran, (cpu+wait)/ran
	}
	ended, kinds := 0, map[string]bool{}
	for _, program := range slices.Sorted(maps.Keys(p.newest)) { // a sum depends on the order
		if p.newest[program].outcome == journal.Finished && !p.cancelled[program] {
			ended++
			out.Wall += wall[program]
			kinds[on[program]] = true
		}
	}
	if len(kinds) != 1 || kinds[severalTypes] {
		out.Wall = 0
		return
	}
	out.Wall /= float64(ended)
	for kind := range kinds {
		out.On = kind
	}
}

// twoDigits writes a number of cores.
func twoDigits(x float64) string { return strconv.FormatFloat(x, 'g', 2, 64) }

// severalTypes marks a program that ran on machines of several types; it is not a type's name.
const severalTypes = "*"

// States returns how many ranks or tasks are in each state, in words.
func (p *Programs) States() string {
	count := map[string]int{}
	for _, m := range p.Members {
		count[m.State]++
	}
	count["waiting"] = max(p.Tasks-len(p.Members), 0)
	var all []string
	for _, state := range []string{Running, journal.Failure, journal.Finished, Dropped, journal.Stopped, journal.Lost, journal.Cancelled, "waiting"} {
		if n := count[state]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(all, ", ")
}

// words returns the result of a run of programs in one line.
func (p *Programs) words() string {
	text := ""
	switch {
	case p.Tasks > 0:
		word := "tasks"
		if len(p.Trials) > 0 {
			word = "trials"
		}
		text = fmt.Sprintf("%d of %d %s done", p.Done, p.Tasks, word)
		if p.Dropped > 0 {
			text += fmt.Sprintf(", %d dropped after feedback", p.Dropped)
		}
		if p.Failed > 0 {
			text += fmt.Sprintf(", %d failed", p.Failed)
		}
		if p.Cancelled > 0 {
			text += fmt.Sprintf(", %d cancelled", p.Cancelled)
		}
		if p.Again > 0 {
			text += fmt.Sprintf(", %d given out again", p.Again)
		}
	case p.Of > 0:
		text = fmt.Sprintf("step %d of %d", p.Step, p.Of)
	case p.Step > 0:
		text = fmt.Sprintf("step %d", p.Step)
	case p.Done > 0:
		text = "the program is done"
	default:
		text = "the program is not done"
	}
	text += fmt.Sprintf("; %d attempts: %d stopped cleanly, %d lost with machines", p.Attempts, p.Stopped, p.Lost)
	if p.Failures > 0 {
		text += fmt.Sprintf(", %d failed by themselves", p.Failures)
	}
	if p.Others > 0 {
		text += fmt.Sprintf(", %d ended as another rank had failed", p.Others)
	}
	if p.Cores > 0 {
		text += fmt.Sprintf("; %s cores' worth of processor time, at most %d MiB of memory in one process", twoDigits(p.Cores), p.Memory>>20)
	}
	if u := p.Use; u != nil && u.Hint() != "" {
		text += fmt.Sprintf("; %s had %d vCPUs: %s", u.Type, u.VCPU, u.Hint())
	}
	return text
}
