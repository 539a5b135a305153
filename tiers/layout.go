package tiers

import (
	"cmp"
	"math"
	"slices"

	"github.com/tierml/tierml/ps"
)

// StageFor returns the stage for a number of transient and reliable machines (TierML, section 3.2): the
// more transient machines per reliable one, the less the reliable ones do.
func StageFor(transient, reliable int, t Thresholds) Stage {
	switch ratio := float64(transient) / float64(max(reliable, 1)); {
	case transient == 0 || ratio <= t.TwoAbove:
		return Stage1
	case ratio <= t.ThreeAbove:
		return Stage2
	default:
		return Stage3
	}
}

// Next returns the layout for the members, in the stage for their numbers.
func Next(now Layout, members []Member, t Thresholds) Layout {
	transient, reliable := Count(members)
	return Arrange(now, members, StageFor(transient, reliable, t), 0)
}

// Count returns how many members of each tier stay.
func Count(members []Member) (transient, reliable int) {
	for _, m := range members {
		switch {
		case m.Leaving:
		case m.Tier == Reliable:
			reliable++
		default:
			transient++
		}
	}
	return transient, reliable
}

// ServersFor returns the maximum number of machines that serve a model, with bytes of rows on each; 0 = any number. It makes the messages
// of a clock, some of which every worker sends to every server, grow with the number of machines and not with its square. Sparse rows count
// as full ones.
func ServersFor(s *ps.Schema, bytes int64) int {
	if bytes <= 0 {
		return 0
	}
	var model float64
	for i := range s.Tables {
		model += 4 * float64(s.Tables[i].Rows) * float64(s.Tables[i].Width())
	}
	return int(min(max(math.Ceil(model/float64(bytes)), 1), ps.MaxPartitions))
}

// Serving returns how many of the transient machines serve: half (TierML, section 3.2), or fewer.
func (t Thresholds) Serving(transient int) int {
	half := (transient + 1) / 2
	return min(half, cmp.Or(t.MostServers, half))
}

// Arrange returns the layout of a stage on the members, with this many servers (0 = the stage's own number: all reliable machines, or half
// of the transient ones).
//
// Invariant: it is a pure function, and only the age of members matters, not their order. Each partition has an owner and, where there are
// reliable members, a backup.
//
//  1. Members are sorted by age; those that leave serve nothing.
//  2. Servers are the stage's tier (the transient one where there is no reliable member): first those that serve now, then the oldest.
//  3. spread gives out partitions and backups in equal numbers, splits by rate. An item moves only off a member that may not have it
//     any longer, or to even out the numbers.
//
// Rejected: placing by hash. It needs no earlier layout, but leaves shares uneven, and a clock takes as long as its fullest server.
func Arrange(now Layout, members []Member, stage Stage, serving int) Layout {
	members = byAge(members)
	stay := func(tier Tier) func(*Member) bool {
		return func(m *Member) bool { return m.Tier == tier && !m.Leaving }
	}
	transient, staying := Count(members)
	reliable := pick(members, staying, stay(Reliable))

	next := Layout{Stage: stage}
	tier, most := Reliable, cmp.Or(serving, staying)
	if next.Stage != Stage1 || len(reliable) == 0 { // without reliable machines the others serve (footnote 7)
		tier, most = Transient, cmp.Or(serving, (transient+1)/2)
	}
	serves, may := now.serve(), stay(tier)
	servers := pick(members, most, func(m *Member) bool { return may(m) && serves(m) })
	servers = append(servers, pick(members, most-len(servers), func(m *Member) bool { return may(m) && !serves(m) })...)
	workers := pick(members, len(members), func(m *Member) bool { return !m.NoWork && (next.Stage != Stage3 || m.Tier == Transient) })
	next.Route.Version = now.Route.Version
	next.Route.Owner = spread(now.Route.Owner, dataless(servers), equally)
	next.Route.Backup = spread(now.Route.Backup, dataless(reliable), equally)
	next.Worker = spread(now.Worker, workers, Member.weight)
	return next
}

// byAge returns members by age, without copying if they are in order.
func byAge(members []Member) []Member {
	order := func(a, b Member) int { return cmp.Or(cmp.Compare(a.Joined, b.Joined), cmp.Compare(a.ID, b.ID)) }
	if slices.IsSortedFunc(members, order) {
		return members
	}
	members = slices.Clone(members)
	slices.SortFunc(members, order)
	return members
}

// serve reports for each member whether it owns partitions.
func (l Layout) serve() func(*Member) bool {
	owners := map[ps.ServerID]bool{}
	for _, id := range l.Route.Owner {
		owners[id] = true
	}
	return func(m *Member) bool { return owners[m.ID] }
}

// Rotate returns a different owner for each partition: the next server or, if there is only one, the oldest staying member of its tier that
// does not serve; false if there is none.
func Rotate(l Layout, members []Member) (owners []ps.ServerID, ok bool) {
	members = byAge(members)
	serves := l.serve()
	servers := pick(members, len(members), serves)
	if len(servers) == 1 {
		servers = append(servers, pick(members, 1, func(m *Member) bool { return !serves(m) && m.Tier == servers[0].Tier && !m.Leaving })...)
	}
	if len(servers) < 2 {
		return nil, false
	}
	next := map[ps.ServerID]ps.ServerID{}
	for i, m := range servers {
		next[m.ID] = servers[(i+1)%len(servers)].ID
	}
	for _, owner := range l.Route.Owner {
		owners = append(owners, next[owner])
	}
	return owners, true
}

// Prefer gives the partitions of a layout the owners that the placer of the machines prefers (Parameter Service, appendix D). It reports
// whether it did: reliable machines must serve (stage 1), and each owner must stay. Backups and splits do not change.
func Prefer(l *Layout, members []Member, owners []ps.ServerID) bool {
	serves := map[ps.ServerID]bool{}
	for _, m := range members {
		serves[m.ID] = m.Tier == Reliable && !m.Leaving
	}
	if l.Stage != Stage1 || len(owners) != len(l.Route.Owner) || slices.ContainsFunc(owners, func(id ps.ServerID) bool { return !serves[id] }) {
		return false
	}
	l.Route.Owner = slices.Clone(owners)
	return true
}

// dataless forgets the splits loaded by picked members, which do not matter for partitions.
func dataless(picked []Member) []Member {
	for i := range picked {
		picked[i].Loaded = nil
	}
	return picked
}

// Roles returns a member's roles in a layout, in the order of the roles' constants.
func (l Layout) Roles(m Member) []Role {
	var roles []Role
	if slices.Contains(l.Worker, m.ID) {
		roles = append(roles, Worker)
	}
	if slices.Contains(l.Route.Owner, m.ID) {
		if m.Tier == Reliable {
			roles = append(roles, ParamServ)
		} else {
			roles = append(roles, ActivePS)
		}
	}
	if m.Tier == Reliable && slices.Contains(l.Route.Backup, m.ID) {
		roles = append(roles, BackupPS)
	}
	if roles == nil {
		roles = []Role{Standby}
	}
	return roles
}

// pick returns the first members to keep, up to this number.
func pick(members []Member, most int, keep func(*Member) bool) []Member {
	out := make([]Member, 0, max(0, min(most, len(members))))
	for i := range members {
		if len(out) == cap(out) {
			break
		}
		if keep(&members[i]) {
			out = append(out, members[i])
		}
	}
	return out
}

func equally(Member) float64 { return 1 }

// weight returns a member's share of the splits: by its rate, so that no worker waits for a slow one.
func (m Member) weight() float64 {
	if m.Rate > 0 {
		return m.Rate
	}
	return float64(max(m.VCPU, 1))
}
