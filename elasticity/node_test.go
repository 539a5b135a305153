package elasticity

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
)

// node does what a machine's agent does, with real shards and backups, one small step at a time.
type node struct {
	w        *world
	id       ps.ServerID
	instance provisioner.Instance
	made     time.Time
	address  string // once it has called
	booted   bool   // its process has called
	dead     bool   // its process has ended
	crashed  bool   // by itself
	warned   bool
	deadline time.Time

	up, down  link
	life      int            // of the controller that it is attached to
	kept      []tiers.Report // for the next controller
	hole      bool           // nothing reaches it and nothing leaves it
	broken    bool           // its control stream is down
	wordless  bool           // its last messages are lost
	slow      time.Duration  // added to each of its messages
	rewelcome int            // number of Welcomes received
	in, out   float64        // bytes so far, where there is traffic

	agent agent.Agent
	server
	worker worker
}

// server is the node's part that owns partitions and backs others up.
type server struct {
	generation ps.Generation
	suspended  bool // between FenceGeneration and Recover
	recovered  ps.Clock
	route      ps.Route
	fenced     map[ps.Incarnation]bool

	shards   map[ps.Partition]*ps.Shard
	leaving  map[ps.Partition]bool // FINAL is being sent: requests wait
	gone     map[ps.Partition]ps.ServerID
	arriving map[ps.Partition]*arrival
	arrived  map[ps.Partition]moveID // that have brought the owned partitions
	newest   map[ps.Partition]moveID // that it has learned of
	moves    int
	hasty    bool // moves in progress wait for nothing

	cut     ps.Clock // named or being sent to the backups; 0 = none
	offered map[ps.Partition]ps.Clock
	backups map[ps.Partition]*ps.Backup
	retired map[ps.Partition]bool // the route names another backup
	held    ps.Clock              // newest cut that the backups here have learned of
	told    ps.Clock              // newest cut that was reported as held
}

func newNode(w *world, i provisioner.Instance) *node {
	n := &node{
		w: w, id: ps.ServerID(i.ID), instance: i,
		server: server{
			recovered: -1, fenced: map[ps.Incarnation]bool{}, shards: map[ps.Partition]*ps.Shard{},
			leaving: map[ps.Partition]bool{}, gone: map[ps.Partition]ps.ServerID{}, arriving: map[ps.Partition]*arrival{},
			arrived: map[ps.Partition]moveID{}, newest: map[ps.Partition]moveID{}, offered: map[ps.Partition]ps.Clock{}, backups: map[ps.Partition]*ps.Backup{}, retired: map[ps.Partition]bool{},
		},
		worker: newWorker(&w.schema),
	}
	n.agent.Server, n.agent.Report = n, n.report
	return n
}

// closed reports whether the control stream is down.
func (n *node) closed() bool { return n.hole || n.broken }

// boot is the first call. If the stream breaks before the Welcome arrives, the call is repeated.
func (n *node) boot() {
	if n.dead {
		return
	}
	n.address, n.booted, n.life = "addr-"+string(n.id), true, n.w.life
	if n.w.absent {
		n.life = -1
	}
	n.hello()
	n.w.reach("boot", n)
	if n.w.odds(10) {
		n.w.after(n.w.delay(40*time.Millisecond), func() {
			if !n.dead && n.agent.Incarnation == 0 {
				n.hello()
			}
		})
	}
	n.beat()
}

func (n *node) hello() {
	n.report(tiers.Hello{
		Instance: n.id, Address: n.address, Incarnation: n.agent.Incarnation, Generation: n.generation,
	})
}

func (n *node) beat() {
	if n.dead {
		return
	}
	if !n.closed() && n.agent.Incarnation != 0 {
		h := tiers.Heartbeat{Owned: len(n.shards), Generation: n.generation}
		for _, s := range n.shards {
			h.CutBytes += int64(s.CutBytes())
		}
		for _, p := range slices.Sorted(maps.Keys(n.shards)) {
			h.Serving = append(h.Serving, ps.Serving{Partition: p, Took: time.Duration(n.shards[p].Folded()) * servingOf(p), Clocks: int64(n.shards[p].Folded())})
		}
		if n.w.dirty > 0 && len(n.shards) > 0 {
			h.CutBytes = n.w.dirty
		}
		if n.w.traffic != nil {
			in, out := n.w.traffic(n)
			n.in, n.out = n.in+in*beatEvery.Seconds(), n.out+out*beatEvery.Seconds()
			h.BytesIn, h.BytesOut = int64(n.in), int64(n.out)
		}
		n.report(h)
	}
	n.w.after(beatEvery, n.beat)
}

// servingOf returns the owner's work for a clock of a partition.
func servingOf(p ps.Partition) time.Duration { return time.Duration(p+1) * 100 * time.Microsecond }

const beatEvery = 400 * time.Millisecond

// exit ends the process. Its last messages may be lost with it.
func (n *node) exit() {
	if n.dead {
		return
	}
	n.dead = true
	n.wordless = n.wordless || n.w.rng.IntN(2) == 0
	if n.address != "" {
		n.w.after(n.w.delay(60*time.Millisecond), func() { n.w.step(Disconnected{ID: n.id}) })
	}
}

// restart ends the process and starts another one on the same machine, with no state.
func (n *node) restart(after time.Duration) {
	n.exit()
	next := newNode(n.w, n.instance)
	next.address = n.address
	n.w.nodes[n.id] = next
	n.w.order[slices.Index(n.w.order, n)] = next
	n.w.after(100*time.Millisecond+after, next.boot)
}

// breakStream interrupts the control stream for a time; the data plane continues.
func (n *node) breakStream(d time.Duration) {
	if n.dead || n.broken || n.address == "" {
		return
	}
	n.broken = true
	n.w.step(Disconnected{ID: n.id})
	n.w.after(d, func() {
		n.broken = false
		if n.dead {
			return
		}
		if n.life != n.w.life {
			n.attach()
			n.up.open(n)
			n.down.open(n)
			return
		}
		held := n.up.held
		n.up.held = nil
		n.hello()
		n.up.held = append(n.up.held, held...)
		n.up.open(n)
		n.down.open(n)
	})
}

// fallSilent cuts the node off from all others for a time, with its streams open.
func (n *node) fallSilent(d time.Duration) {
	if n.dead || n.hole {
		return
	}
	n.hole = true
	n.w.after(d, func() {
		n.hole = false
		n.up.open(n)
		n.down.open(n)
	})
}

func (n *node) report(r tiers.Report) {
	n.up.put(n, func() {
		_, calls := r.(tiers.Hello)
		_, answers := r.(tiers.Answer)
		switch {
		case n.dead && n.wordless:
		case !n.w.absent && n.life == n.w.life: // messages on a stream to a former controller are lost, even a Hello
			n.w.step(Reported{ID: n.id, Report: r})
		case !calls && !answers: // the request would be unknown
			n.kept = append(n.kept, r)
		}
	})
}

func (n *node) answer(id uint64, err error, r tiers.Result) { n.agent.Answer(id, r, err) }

func (n *node) take(c tiers.Command) {
	if n.dead || !n.booted {
		return
	}
	if n.w.refuse != nil {
		if why := n.w.refuse(n, c.Do); why != "" {
			n.answer(c.ID, failure(why), nil)
			return
		}
	}
	switch do := n.agent.Take(c).(type) {
	case tiers.Welcome:
		n.generation = do.Generation
		n.agent.Join(do)
		n.agent.Passes = n.w.shape.standby
		if do.Params != nil {
			n.agent.StandBy()
		}
		n.answer(c.ID, nil, nil)
	case tiers.Stop:
		n.exit()
	case tiers.Load:
		takes := n.w.delay(time.Second)
		if n.w.loading != nil {
			takes += n.w.loading(n)
		}
		n.w.after(takes, func() {
			if !n.dead {
				n.answer(c.ID, nil, nil)
			}
		})
	case tiers.TakeStock:
		n.takeStock(c.ID)
	case tiers.SaveCut:
		n.saveCut(c.ID, do)
	case tiers.MoveOut:
		n.moveOut(c.ID, do)
	case tiers.FenceWorker:
		n.fenceWorker(c.ID, do.Incarnation)
	}
	switch c.Do.(type) {
	case tiers.Welcome:
		n.rewelcome++
	case tiers.NameCut, tiers.SettleWorker:
		n.offerCuts()
	case tiers.Assign, tiers.Release, tiers.Unpark, tiers.Recover:
		n.work()
	}
}

// owned returns the partitions that this node serves, in order.
func (n *node) owned() []ps.Partition {
	var parts []ps.Partition
	for p := range n.w.schema.Partitions {
		if n.shards[ps.Partition(p)] != nil {
			parts = append(parts, ps.Partition(p))
		}
	}
	return parts
}

func (n *node) Own(do tiers.Own) error {
	if n.w.store.damaged[do.Checkpoint] {
		return tiers.ErrDamaged
	}
	for _, p := range do.Partitions {
		if n.shards[p] = ps.NewShard(&n.w.schema, p); do.Checkpoint != "" {
			n.shards[p] = n.w.restored(do.Checkpoint, p, do.Cut)
		}
	}
	return nil
}

func (n *node) BackUp(do tiers.BackUp) error {
	if n.w.store.damaged[do.Checkpoint] {
		return tiers.ErrDamaged
	}
	for _, p := range do.Partitions {
		if n.backups[p] == nil {
			n.backups[p] = n.w.restoredBackup(do, p)
		}
		delete(n.retired, p)
		n.held = 0
	}
	return nil
}

func (n *node) SetRoute(g ps.Generation, route ps.Route, _ map[ps.ServerID]string) error {
	switch {
	case g < n.generation || g == n.generation && route.Version < n.route.Version:
		return nil
	case g > n.generation:
		if n.route.Version > 0 {
			n.w.failf("%s hears of generation %d by a route, while it is in %d", n.id, g, n.generation)
		}
		n.beginGeneration(g)
		n.suspended = false
	}
	n.route = route
	for p, backup := range route.Backup {
		n.retired[ps.Partition(p)] = backup != n.id
	}
	for p, owner := range route.Owner {
		p := ps.Partition(p)
		if n.gone[p] != "" && owner != n.id {
			n.gone[p] = owner
		}
		if a := n.arriving[p]; a != nil && a.shard != nil && owner == n.id && route.Version > a.move.version {
			n.ownArrived(p)
		}
	}
	n.offerCuts()
	if n.held > 0 {
		n.reportHeld() // what was missing may be another's now
	}
	return nil
}

func (n *node) beginGeneration(g ps.Generation) {
	n.generation, n.recovered, n.cut, n.held, n.told = g, -1, 0, 0, 0
	n.route = ps.Route{}
	clear(n.offered)
	clear(n.arriving)
	clear(n.newest)
}

func (n *node) HurryMoves() { n.hasty = true }

func (n *node) own(p ps.Partition, s *ps.Shard) {
	for inc := range n.fenced {
		s.Fence(inc)
	}
	n.shards[p] = s
	delete(n.gone, p)
	delete(n.arriving, p)
}

func (n *node) Promote(cut ps.Clock, partitions []ps.Partition) error {
	for _, p := range partitions {
		if n.shards[p] != nil {
			continue
		}
		s, err := n.backups[p].Promote(cut)
		if err != nil {
			return err
		}
		n.own(p, s)
	}
	return nil
}

func (n *node) fenceWorker(id uint64, inc ps.Incarnation) {
	if slices.ContainsFunc(n.owned(), func(p ps.Partition) bool { return n.leaving[p] }) {
		n.soon(func() { n.fenceWorker(id, inc) })
		return
	}
	n.fenced[inc] = true
	var st tiers.Standings
	for _, p := range n.owned() {
		st.Partitions = append(st.Partitions, n.shards[p].StatusOf(inc))
	}
	n.answer(id, nil, st)
}

func (n *node) SettleWorker(inc ps.Incarnation, sequence uint64, commit bool) (err error) {
	for _, p := range n.owned() {
		if _, e := n.shards[p].Settle(inc, sequence, commit); e != nil {
			err = e
		}
	}
	return err
}

func (n *node) FenceGeneration(g ps.Generation) (tiers.Holdings, error) {
	if g > n.generation {
		n.beginGeneration(g)
		n.suspended = true
		clear(n.leaving)
		for _, s := range n.shards {
			s.CancelMove()
		}
	}
	var owned []*ps.Shard
	for _, p := range n.owned() {
		owned = append(owned, n.shards[p])
	}
	return tiers.Holdings(ps.HoldingsOf(owned, n.holdings())), nil
}

// holdings lists what this node backs up.
func (n *node) holdings() (list []ps.BackupHolding) {
	for p := range n.w.schema.Partitions {
		if b := n.backups[ps.Partition(p)]; b != nil {
			list = append(list, b.Holding())
		}
	}
	return list
}

// recover returns to a cut. Everything that is no longer owned is dropped.
func (n *node) Recover(do tiers.Recover) error {
	switch {
	case do.Generation < n.generation:
		return failure("an older generation")
	case do.Checkpoint != "" || do.Initial:
		return n.beginAt(do)
	case do.Generation > n.generation || !n.suspended:
		n.w.failf("%s is to recover generation %d without having been fenced", n.id, do.Generation)
	}
	for p := range n.w.schema.Partitions {
		b := n.backups[ps.Partition(p)]
		if b == nil {
			continue
		}
		if held, _ := b.Cut(); b.Delivered() == do.Cut && held < do.Cut {
			if err := b.Commit(do.Cut); err != nil {
				return err
			}
		}
		b.Drop()
	}
	shards := map[ps.Partition]*ps.Shard{}
	for p, owner := range do.Route.Owner {
		if owner != n.id {
			continue
		}
		p := ps.Partition(p)
		s := n.shards[p]
		if s == nil || s.Rollback(do.Cut) != nil {
			var err error
			if s, err = n.backups[p].Promote(do.Cut); err != nil {
				return err
			}
		}
		n.w.checkRows("recovered partition", p, s, do.Cut)
		shards[p] = s
	}
	n.shards = shards
	n.gone, n.arrived, n.fenced = map[ps.Partition]ps.ServerID{}, map[ps.Partition]moveID{}, map[ps.Incarnation]bool{}
	n.suspended, n.recovered = false, do.Cut
	return n.SetRoute(do.Generation, do.Route, do.Peers)
}
