package hosts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// Offer describes the hosts available to a tier.
type Offer struct {
	Least   Size    // least size of the types that may be bought, in each dimension: every slot fits on every host
	Most    int     // maximum number of hosts
	Network float64 // of a reliable host, in bytes per second in one direction; 0 = unknown
}

// Rules configures a Book.
type Rules struct {
	Provider string          // the provider whose pools jobs name
	Types    map[string]Size // the types of slots
	Offers   map[step.Tier]Offer
	// Loss is the share of its speed that a job may lose on reliable hosts that it shares (AutoPS's LossLimit). A slot waits this long for
	// a host on which no job loses more, and then takes any with room.
	Loss   float64
	Insist time.Duration
}

// sizeOf returns the size of slots of a type that have a size of their own, or zero.
func (r Rules) sizeOf(kind string, own Size) (size Size, known bool) {
	if own != (Size{}) {
		return own, true
	}
	size, known = r.Types[kind]
	return size, known
}

// request is a granted request.
type request struct {
	of    provisioner.Request
	slots []*Slot
}

// Book holds all slots. It adds each decision to its lines before anyone learns of it; Lines returns them to be stored.
//
// Invariants:
//   - Slots, requests and profiles follow from the lines in their order: what is decided goes through write, which applies a line as a
//     successor will. Only hosts, the clocks of a watch and jobs' latest pace are not in the lines; the Brain adds hosts again, from the fleet's journal.
//   - The same request has the same slots, whichever controller answers it (Ask).
//   - Slots that are on a host together fit on it. So their shares of a charge are never more than the charge (Share).
//
// The life of a slot:
//  1. Ask grants it. It has no host yet, but there is room on one, or one may be bought.
//  2. Place puts it on a host. The job pays from then on, and the host's agent starts its process with the next orders.
//  3. Return: the job gives it back, and the agent ends its process.
//  4. It ends: the process has ended (Gone), or the host (EndHost, Strand), or no host came in time (Expire).
//  5. Settle writes what it costs, once no later event can change that.
//
// A process that dies between two steps leaves nothing undone, because each next step is derived from the state: a job repeats an
// unanswered request, an agent receives all slots of its host on every call, and waiting slots are the demand. A slot's line may be stored
// while its host's launch is not: the host is adopted from the provider's list, or Strand ends the slot.
type Book struct {
	rules    Rules
	slots    []*Slot // in order of their requests
	live     []*Slot // slots that have not ended
	owing    []*Slot // slots that have ended but are not charged
	byID     map[provisioner.InstanceID]*Slot
	requests map[string]*request // by job and token
	hosts    map[step.ID]*Host
	on       map[step.ID][]*Slot // by host, including ended ones
	measured map[string]measured // by job
	watch    *watch              // of the last change; nil = none is watched
	lines    []Line
	applied  int  // lines
	rest     rest // the state in which no change was needed
}

// rest is the part of a state that decides whether to make a change.
type rest struct{ applied, aged, staying, most int }

// NewBook returns an empty book.
func NewBook(rules Rules) *Book {
	return &Book{rules: rules, byID: map[provisioner.InstanceID]*Slot{}, requests: map[string]*request{}, hosts: map[step.ID]*Host{},
		on: map[step.ID][]*Slot{}, measured: map[string]measured{}}
}

// Apply applies a stored line.
func (b *Book) Apply(l Line) error {
	b.applied++
	s := b.byID[l.Slot]
	if s == nil && !slices.Contains([]string{Asked, Profiled, Preferred, Judged}, l.Kind) {
		return fmt.Errorf("a line %q is about slot %q, which nobody requested", l.Kind, l.Slot)
	}
	switch l.Kind {
	case Asked:
		return b.applyAsked(l)
	case Placed:
		s.Host, s.Placed = l.Host, l.T
		b.on[s.Host] = append(b.on[s.Host], s)
		b.recount(s)
		b.askNothing(s)
	case Leaving:
		s.Returned = l.T
		b.recount(s)
	case Ended:
		if s.hasEnded() {
			return fmt.Errorf("slot %s ends twice", s.ID)
		}
		s.Ended, s.EndedBy, s.Why, s.Presumed = l.T, l.By, l.Why, l.Presumed
		b.live = slices.DeleteFunc(b.live, func(o *Slot) bool { return o == s })
		b.recount(s)
		b.askNothing(s)
		if s.Charged = s.Host == ""; !s.Charged { // otherwise it never had one, and costs nothing
			b.owing = append(b.owing, s)
		}
	case Charged:
		if s.Charged {
			return fmt.Errorf("slot %s is charged twice", s.ID)
		}
		s.Charged, s.Cost = true, l.USD
		b.owing = slices.DeleteFunc(b.owing, func(o *Slot) bool { return o == s })
	case Profiled, Preferred, Judged:
		return b.applyMeasured(l)
	default:
		return fmt.Errorf("a line of the unknown kind %q: a newer version wrote it", l.Kind)
	}
	return nil
}

func (b *Book) applyAsked(l Line) error {
	if l.Request == nil || len(l.Slots) == 0 {
		return fmt.Errorf("a line %q lacks its request or its slots", l.Kind)
	}
	q := &request{of: *l.Request}
	for _, id := range l.Slots {
		if b.byID[id] != nil {
			return fmt.Errorf("slot %s is granted twice", id)
		}
		s := &Slot{ID: id, Job: l.Job, User: l.User, Token: q.of.Token, Pool: q.of.Pool, Tier: tierOf(q.of.Pool.Class), Size: l.Size, Tags: q.of.Tags,
			UserData: q.of.UserData, Asked: l.T}
		b.byID[id] = s
		b.slots, b.live, q.slots = append(b.slots, s), append(b.live, s), append(q.slots, s)
	}
	b.requests[key(l.Job, q.of.Token)] = q
	return nil
}

// applyMeasured applies a measurement of serving a job, and its consequences. Watched changes are stored as well: a successor counts a
// hundred clocks anew.
func (b *Book) applyMeasured(l Line) error {
	m := b.measured[l.Job]
	switch {
	case l.Job == "" || l.Kind == Profiled && l.Profile == nil:
		return fmt.Errorf("a line %q lacks its job or its profile", l.Kind)
	case l.Kind == Profiled:
		m.profile, m.owners, m.serves = *l.Profile, l.Owners, l.OnlyServes
		b.measured[l.Job] = m
		b.recount(&Slot{Job: l.Job})
		return nil
	}
	b.watch = nil
	if l.Watched != nil {
		b.watch = &watch{job: l.Job, was: tiers.Preference{Owners: m.owners, More: m.wish.More}, had: b.reliableOf(l.Job), clocks: l.Watched}
	}
	if l.Kind == Preferred {
		m.wish, m.to = tiers.Preference{Owners: l.Owners, More: l.More, Leave: l.Leave, Why: l.Why}, l.Hosts
		if l.Host != "" { // of a former version
			m.to = []step.ID{l.Host}
		}
	}
	if l.Refused != nil {
		m.refused = l.Refused
	}
	b.measured[l.Job] = m
	return nil
}

// askNothing forgets the preferred owners of a job's partitions: its reliable slots have changed.
func (b *Book) askNothing(s *Slot) {
	m, known := b.measured[s.Job]
	if !known || s.Tier != step.Reliable {
		return
	}
	if m.wish.Owners != nil && b.watch != nil && b.watch.job == s.Job {
		b.watch = nil
	}
	m.wish.Owners = nil
	b.measured[s.Job] = m
}

// reliableOf returns a job's reliable slots that are on hosts, in order of their requests.
func (b *Book) reliableOf(job string) (ids []step.ID) {
	for _, s := range b.live {
		if s.Job == job && s.Tier == step.Reliable && s.Host != "" && !s.Leaving() {
			ids = append(ids, step.ID(s.ID))
		}
	}
	return ids
}

// slot returns a granted slot.
func (b *Book) slot(id step.ID) *Slot { return b.byID[provisioner.InstanceID(id)] }

func key(job, token string) string { return job + " " + token }

// recount recomputes what the hosts of a slot and of its job's other slots have granted: what one serves depends on their number.
func (b *Book) recount(s *Slot) {
	if h := b.hosts[s.Host]; h != nil {
		h.Used = b.Used(s.Host)
	}
	for _, o := range b.live {
		if h := b.hosts[o.Host]; o.Job == s.Job && h != nil {
			h.Used = b.Used(o.Host)
		}
	}
}

// Used returns the resources that a host has granted to its slots. Slots of a measured job that only serve keep their memory and GPUs, and
// of the vCPUs what serving takes: a job has everything requested until it has been measured (section 3.3.1).
func (b *Book) Used(host step.ID) Size {
	var sum taken
	for _, s := range b.On(host) {
		sum = sum.plus(b.taken(s), 1)
	}
	return Size{VCPU: int(math.Ceil(sum.cores - 1e-9)), MemoryMiB: sum.memory, GPUs: sum.gpus}
}

// taken returns the resources that a slot takes.
func (b *Book) taken(s *Slot) taken {
	t := taken{float64(s.Size.VCPU), b.load(s), s.Size.MemoryMiB, s.Size.GPUs}
	if b.serves(s) {
		t.cores = min(t.cores, t.load.Cores)
	}
	return t
}

// serves reports whether a slot belongs to a measured job whose slots only serve.
func (b *Book) serves(s *Slot) bool {
	m := b.measured[s.Job]
	return s.Tier == step.Reliable && m.serves && m.profile.Known()
}

// load returns what serving takes in a slot. A new one will have an even share.
func (b *Book) load(s *Slot) (load Load) {
	m, slots := b.measured[s.Job], b.reliableOf(s.Job)
	if s.Tier != step.Reliable || !m.profile.Known() {
		return Load{}
	}
	fresh := true
	for i, owner := range m.owners {
		if owner == step.ID(s.ID) {
			load = load.plus(m.at(i), 1)
		}
		fresh = fresh && owner != step.ID(s.ID) && slices.Contains(slots, owner)
	}
	if fresh {
		load = Load{}.plus(m.load(), 1/float64(max(len(slots), 1)))
	}
	return load
}

// needs returns what a host must have free for a waiting slot. suits decides whether it has the vCPUs and the network to serve a measured job.
func (b *Book) needs(s *Slot) Size {
	size := s.Size
	if b.serves(s) {
		size.VCPU = min(size.VCPU, int(b.measured[s.Job].profile.Cores()/float64(1+len(b.reliableOf(s.Job)))))
	}
	return size
}

// write adds a line decided here, and applies it.
func (b *Book) write(l Line) {
	l.T = l.T.UTC().Truncate(time.Second)
	if err := b.Apply(l); err != nil {
		panic(fmt.Sprintf("hosts: the book contradicts itself: %v", err)) // each caller has checked
	}
	b.lines = append(b.lines, l)
}

// Limit sets the maximum number of hosts of a tier.
func (b *Book) Limit(tier step.Tier, most int) {
	offer := b.rules.Offers[tier]
	offer.Most = most
	b.rules.Offers[tier] = offer
}

// Lines returns the decisions since the last call. They must be stored before anything is answered or done.
func (b *Book) Lines() []Line {
	lines := b.lines
	b.lines = nil
	return lines
}

// Traits returns the traits of slots as a provisioner.Cloud: hosts are bid for, slots are not.
func (b *Book) Traits() provisioner.Traits { return provisioner.Traits{Provider: b.rules.Provider} }

// Admits reports whether a user of the host's system may access a job: it is not another's.
func (b *Book) Admits(user int, job string) bool {
	return !slices.ContainsFunc(b.slots, func(s *Slot) bool { return s.Job == job && s.User != user })
}

// Return gives slots back, like Terminate: one without a process ends at once, the others with their process.
func (b *Book) Return(now time.Time, job string, ids ...provisioner.InstanceID) {
	for _, id := range ids {
		s := b.byID[id]
		if s == nil || s.Job != job || s.hasEnded() || s.Leaving() {
			continue
		}
		if s.waiting() {
			b.end(now, s, Line{By: market.ByUser, Why: "given back"})
			continue
		}
		b.write(Line{T: now, Kind: Leaving, Slot: id})
	}
}

// end ends a slot. Time does not run backwards: a host's own clock may be behind.
func (b *Book) end(at time.Time, s *Slot, of Line) {
	if at.Before(s.Asked) {
		at = s.Asked
	}
	if at.Before(s.Placed) {
		at = s.Placed
	}
	of.T, of.Kind, of.Slot = at, Ended, s.ID
	b.write(of)
}

// Gone records the end of a slot's process, as reported by its host's agent.
func (b *Book) Gone(now time.Time, host step.ID, id provisioner.InstanceID, why string) {
	s := b.byID[id]
	if s == nil || s.Host != host || s.hasEnded() {
		return
	}
	if s.Leaving() {
		why = "given back"
	}
	b.end(now, s, Line{By: market.ByUser, Why: why})
}

// AddHost makes a host available for slots. Slots that the book already has on it count.
func (b *Book) AddHost(id step.ID, tier step.Tier, size Size) *Host {
	h := &Host{ID: id, Tier: tier, Size: size, Network: b.rules.Offers[tier].Network, Stays: true, Used: b.Used(id)}
	b.hosts[id] = h
	return h
}

// EndHost ends all slots of a host that has gone. A slot that its job had given back earlier ends by that; one that its job gave up because
// its host was gone does not. Unless the provider saw the host's end (seen), the slots' processes may still run.
func (b *Book) EndHost(at time.Time, id step.ID, why string, seen bool) {
	for _, s := range b.On(id) {
		by := market.ByProvider
		if s.Leaving() && !at.Before(s.Returned) {
			by = market.ByUser
		}
		b.end(at, s, Line{By: by, Why: fmt.Sprintf("its host %s is gone: %s", id, why), Presumed: !seen})
	}
	delete(b.hosts, id)
}

// Strand ends the slots of unknown hosts, which ended while no process kept the book.
func (b *Book) Strand(now time.Time) {
	for _, s := range slices.Clone(b.live) {
		if s.Host != "" && b.hosts[s.Host] == nil {
			b.end(now, s, Line{By: market.ByProvider, Why: fmt.Sprintf("its host %s ended while the shared hosts were without a controller", s.Host), Presumed: true})
		}
	}
}

// Expire ends slots that have waited too long for a host.
func (b *Book) Expire(now time.Time, patience time.Duration) {
	for _, s := range slices.Clone(b.live) {
		if s.waiting() && now.Sub(s.Asked) >= patience {
			b.end(now, s, Line{By: market.ByProvider, Why: fmt.Sprintf("no host was available for it within %s", patience)})
		}
	}
}

// staying returns the hosts of a tier that accept slots, sorted.
func (b *Book) staying(tier step.Tier) (there []*Host) {
	for _, id := range slices.Sorted(maps.Keys(b.hosts)) {
		if h := b.hosts[id]; h.Tier == tier && h.Stays {
			there = append(there, h)
		}
	}
	return there
}

// neighbours reports whether a job has a slot on a host.
func (b *Book) neighbours(job string, host step.ID) bool {
	return slices.ContainsFunc(b.On(host), func(s *Slot) bool { return s.Job == job })
}

// On returns the slots of a host that have not ended, in order of their requests.
func (b *Book) On(host step.ID) (on []*Slot) {
	for _, s := range b.on[host] {
		if !s.hasEnded() {
			on = append(on, s)
		}
	}
	return on
}

// Host returns a host that slots may be on; nil = it does not exist any more, or never did.
func (b *Book) Host(id step.ID) *Host { return b.hosts[id] }

// Slots returns all slots, in order of their requests.
func (b *Book) Slots() []*Slot { return b.slots }

// Live reports whether any slot has not ended.
func (b *Book) Live() bool { return len(b.live) > 0 }

// Of returns a job's slots as machines, sorted by id, including those that have ended.
func (b *Book) Of(job string) []provisioner.Instance {
	var own []*Slot
	for _, s := range b.slots {
		if s.Job == job {
			own = append(own, s)
		}
	}
	return b.instances(own)
}

// Deadlines returns a job's current warnings: when its slots go with their hosts.
func (b *Book) Deadlines(job string) map[provisioner.InstanceID]time.Time {
	deadlines := map[provisioner.InstanceID]time.Time{}
	for _, s := range b.live {
		if h := b.hosts[s.Host]; s.Job == job && h != nil && !h.Deadline.IsZero() {
			deadlines[s.ID] = h.Deadline
		}
	}
	return deadlines
}

func (b *Book) instances(slots []*Slot) []provisioner.Instance {
	var all []provisioner.Instance
	for _, s := range slots {
		i := provisioner.Instance{ID: s.ID, Pool: s.Pool, Token: s.Token, State: provisioner.Pending, Launched: s.Asked, Tags: maps.Clone(s.Tags)}
		h := b.hosts[s.Host]
		switch {
		case s.hasEnded():
			i.State, i.Ended, i.EndedBy, i.Reason, i.Presumed = provisioner.Terminated, s.Ended, s.EndedBy, s.Why, s.Presumed
			if s.Charged {
				i.Cost = &s.Cost
			}
		case s.Leaving():
			i.State = provisioner.Stopping
		case h != nil && h.Called:
			i.State = provisioner.Running
		}
		all = append(all, i)
	}
	provisioner.SortInstances(all)
	return all
}
