// Package drill chooses machines of a run to disturb, and reports the effect from the run's journal: how long training stopped, what was
// lost, and how it continued.
//
// It reads entries and does sums. It does not know how machines are disturbed (a control endpoint, a provider's API) or where the journal
// is.
package drill

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// The possible disturbances, in the fake cloud's words.
const (
	Rebalance = "rebalance" // warn it that it may soon be reclaimed
	Evict     = "evict"     // reclaim it with the usual notice
	EvictNow  = "evict-now" // reclaim it without notice
	Kill      = "kill"      // break it: no notice, no eviction
	Move      = "move"      // to no machine: every partition moves to another server
)

// Words lists all disturbances.
func Words() []string { return []string{Rebalance, Evict, EvictNow, Kill, Move} }

// Machine is a machine that takes part in training.
type Machine struct {
	ID       string
	Tier     string
	Pool     string
	Launched time.Time
}

// Aim selects the machines. Exactly one of IDs, Servers and Which is used, in this order.
type Aim struct {
	IDs     []string // machines by their names, or prefixes of names
	Servers string   // "half" or "all" of the ActivePSs
	Which   string   // "oldest", "newest", "random" or "all" of the transient machines
	Count   int      // for Which; 0 = 1
	Of      string   // only in this type, zone, or zone/type
}

// Watch follows a run's journal.
type Watch struct {
	mapping  clock.Mapping
	live     []Machine // that take part, in order of launch
	pending  map[string]Machine
	warned   map[string]bool // machines with an eviction notice
	atRisk   map[string]bool // and with a rebalance recommendation
	owned    map[string]int  // partitions that moved to each transient machine
	stage    string
	lastAt   time.Time // market time of the last clock
	highest  int64
	gaps     []float64 // wall-clock lengths of the last clocks
	finished bool
	of       programs

	began   bool
	at      time.Time
	do      string
	targets map[string]bool // false = not gone yet
	report  Report
}

// Report is the result of a drill. Lengths are wall-clock seconds; times are market time.
type Report struct {
	Do       string    `json:"do"`
	Targets  []string  `json:"targets"`
	At       time.Time `json:"at"`
	Gone     int       `json:"gone"` // of the targets
	WentOn   bool      `json:"went_on"`
	Longest  float64   `json:"longest_clock_seconds"` // the longest time between two clocks after it
	Usual    float64   `json:"usual_clock_seconds"`   // before it
	Still    float64   `json:"stood_still_seconds"`   // Longest minus Usual
	Until    float64   `json:"until_next_clock_seconds"`
	Lost     int64     `json:"lost_clocks"` // repeated after roll-backs
	Rollback int       `json:"rollbacks"`
	Cuts     int       `json:"cuts"`
	Moved    int       `json:"moved_partitions"`
	Launched int       `json:"launched"` // machines bought since
	Stages   []string  `json:"stages,omitempty"`
	Others   int       `json:"others_gone,omitempty"` // other machines lost meanwhile
	Moves    Moves     `json:"moves,omitzero"`
	Programs int       `json:"programs,omitempty"`    // that ran on the targets
	Steps    int64     `json:"steps_again,omitempty"` // repeated steps of these
}

// Moves is the cost of moves that ended after a drill began.
type Moves struct {
	Partitions int     `json:"partitions"`
	Bytes      int64   `json:"bytes"`   // copied, including repeated rows
	Seconds    float64 `json:"seconds"` // in which rows travelled, of all partitions together
	// Waited is how long workers waited for partitions that neither owner served, in total; Longest, the longest wait.
	Waited  float64 `json:"waited_seconds"`
	Longest float64 `json:"longest_waited_seconds"`
	Hidden  float64 `json:"hidden"` // the share of Seconds without a waiting worker
	// Added is how much longer than usual the clocks were, in total, from the drill to the end of the clock in which the moves ended. On a
	// busy host, most of it may have other causes.
	Added float64 `json:"added_seconds"`
}

// kept is the number of clocks that define the usual length.
const kept = 20

// New returns an empty watch.
func New() *Watch {
	return &Watch{mapping: clock.Real(), pending: map[string]Machine{}, warned: map[string]bool{}, atRisk: map[string]bool{}, owned: map[string]int{}, of: programs{runs: map[string]string{}, ended: map[string]int64{}, hit: map[string]bool{}}}
}

// Feed processes an entry, in order.
func (w *Watch) Feed(e journal.Entry) {
	switch e.Kind {
	case journal.Start:
		if d, err := e.StartDetails(); err == nil {
			if m, err := clock.Parse(d.Clock); err == nil {
				w.mapping = m
			}
		}
		w.finished = false
	case journal.Launch:
		w.pending[e.Instance] = Machine{ID: e.Instance, Tier: e.Tier, Pool: e.Pool, Launched: *cmp.Or(e.Launched, &e.T)}
		if w.began {
			w.report.Launched++
		}
	case journal.Join:
		w.join(e.Instance)
	case journal.Leave, journal.Failed, journal.Evicted, journal.Terminated:
		w.gone(e.Instance)
	case journal.Stage:
		if w.stage = e.To; e.To == "1" {
			clear(w.owned)
		}
		if w.began {
			w.report.Stages = append(w.report.Stages, e.From+" -> "+e.To)
		}
	case journal.Done:
		w.finished = true
	case journal.ClockDone:
		w.clock(e)
	case journal.ProgramStart:
		w.programStarts(e)
	case journal.ProgramEnd:
		w.programEnds(e)
	case journal.Notice:
		w.noticed(e)
	case journal.Move:
		w.owned[e.To] += e.Count
		w.owned[e.From] -= min(e.Count, w.owned[e.From])
	}
	if !w.began {
		return
	}
	switch e.Kind {
	case journal.Rollback:
		w.report.Rollback++
		w.report.Lost += e.LostClocks
	case journal.Cut:
		w.report.Cuts++
	case journal.Move:
		w.report.Moved += e.Count
	case journal.Moved:
		w.moved(e)
	}
}

func (w *Watch) moved(e journal.Entry) {
	m := &w.report.Moves
	m.Partitions += e.Count
	m.Bytes += e.Bytes
	m.Seconds += e.Seconds
	if d, err := e.MovedDetails(); err == nil {
		m.Waited += d.Waited
		m.Longest = max(m.Longest, d.Longest)
	}
}

func (w *Watch) join(id string) {
	m, known := w.pending[id]
	if !known || slices.ContainsFunc(w.live, func(m Machine) bool { return m.ID == id }) {
		return
	}
	w.live = append(w.live, m)
	slices.SortStableFunc(w.live, func(a, b Machine) int { return cmp.Or(a.Launched.Compare(b.Launched), strings.Compare(a.ID, b.ID)) })
}

func (w *Watch) gone(id string) {
	before := len(w.live)
	w.live = slices.DeleteFunc(w.live, func(m Machine) bool { return m.ID == id })
	delete(w.owned, id)
	if !w.began {
		return
	}
	if done, meant := w.targets[id]; meant && !done {
		w.targets[id] = true
		w.report.Gone++
	} else if !meant && len(w.live) < before {
		w.report.Others++
	}
}

func (w *Watch) clock(e journal.Entry) {
	gap := 0.0
	if !w.lastAt.IsZero() {
		gap = w.mapping.ToWall(e.T.Sub(w.lastAt)).Seconds()
	}
	switch {
	case gap == 0:
	case !w.began:
		w.gaps = append(w.gaps, gap)
		w.gaps = w.gaps[max(0, len(w.gaps)-kept):]
	default:
		if w.do != Move || !w.report.WentOn {
			w.report.Longest = max(w.report.Longest, gap)
		}
		if !w.report.WentOn {
			w.report.Moves.Added += gap - w.report.Usual
		}
	}
	w.lastAt = e.T
	if e.Clock <= w.highest {
		return // repeated
	}
	w.highest = e.Clock
	if w.began && w.allGone() && !w.report.WentOn {
		w.report.WentOn = true
		w.report.Until = w.mapping.ToWall(e.T.Sub(w.at)).Seconds()
	}
}

// allGone reports whether the disturbance is complete: the machines have ended, or the partitions have moved.
func (w *Watch) allGone() bool {
	if w.do == Move {
		return w.report.Moves.Partitions > 0
	}
	return w.do == Rebalance || w.report.Gone == len(w.targets)
}

// Finished reports whether the run has ended.
func (w *Watch) Finished() bool { return w.finished }

// Choose returns the machines that a choice means now.
func (w *Watch) Choose(c Aim, seed uint64) ([]Machine, error) {
	if len(c.IDs) > 0 {
		return w.byName(c.IDs)
	}
	var transient []Machine
	for _, m := range w.live {
		if m.Tier == "transient" && !w.warned[m.ID] && within(m.Pool, c.Of) {
			transient = append(transient, m)
		}
	}
	where := ""
	if c.Of != "" {
		where = " of " + c.Of
	}
	if len(transient) == 0 {
		return nil, fmt.Errorf("no transient machine%s without an eviction notice takes part now", where)
	}
	if c.Servers != "" {
		if w.stage != "2" && w.stage != "3" {
			return nil, fmt.Errorf("there are no ActivePSs: training is in stage %s, where reliable machines serve", cmp.Or(w.stage, "1"))
		}
		servers := slices.DeleteFunc(transient, func(m Machine) bool { return w.owned[m.ID] == 0 })
		if len(servers) == 0 {
			return nil, fmt.Errorf("no transient machine%s serves now", where)
		}
		if c.Servers == "half" {
			servers = servers[:(len(servers)+1)/2]
		}
		return servers, nil
	}
	n := min(max(c.Count, 1), len(transient))
	switch c.Which {
	case "", "oldest":
		return transient[:n], nil
	case "newest":
		return transient[len(transient)-n:], nil
	case "random":
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(transient), func(i, j int) { transient[i], transient[j] = transient[j], transient[i] })
		return transient[:n], nil
	case "all":
		return transient, nil
	}
	return nil, fmt.Errorf("%q does not exist; write oldest, newest, random or all", c.Which)
}

func (w *Watch) byName(names []string) (chosen []Machine, err error) {
	for _, name := range names {
		var found []Machine
		for _, m := range w.live {
			if strings.HasPrefix(m.ID, name) {
				found = append(found, m)
			}
		}
		if len(found) != 1 {
			var ids []string
			for _, m := range w.live {
				ids = append(ids, m.ID)
			}
			return nil, fmt.Errorf("%d machines that take part are called %q; there are %s", len(found), name, strings.Join(ids, ", "))
		}
		chosen = append(chosen, found[0])
	}
	return chosen, nil
}

// within reports whether a pool matches a type, a zone, or a zone/type.
func within(pool, of string) bool {
	if of == "" {
		return true
	}
	p, err := market.ParsePool(pool)
	return err == nil && (of == p.Type || of == p.Zone || of == p.Zone+"/"+p.Type)
}

// Begin records a disturbance at a market time; the following entries show its effect.
func (w *Watch) Begin(do string, machines []Machine, at time.Time) {
	w.began, w.do, w.at, w.targets = true, do, at, map[string]bool{}
	w.report = Report{Do: do, At: at, Usual: median(w.gaps)}
	for _, m := range machines {
		w.targets[m.ID] = false
		w.report.Targets = append(w.report.Targets, m.ID)
		w.of.struck(m.ID)
	}
	w.report.Programs = len(w.of.hit)
	for _, m := range machines {
		if do == Rebalance && w.atRisk[m.ID] { // no second recommendation is recorded
			w.noticed(journal.Entry{T: at, Instance: m.ID})
		}
	}
}

// Settled reports whether the effect is known: the machines have ended, and training continues.
func (w *Watch) Settled() bool { return w.report.WentOn || w.finished }

// Now returns the run's present market time.
func (w *Watch) Now() time.Time { return w.mapping.Now() }

// Report returns the result so far.
func (w *Watch) Report() Report {
	r := w.report
	r.Still = max(0, r.Longest-r.Usual)
	if m := &r.Moves; m.Partitions == 0 {
		*m = Moves{}
	} else {
		m.Hidden = 1 - min(m.Waited/m.Seconds, 1)
	}
	return r
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
