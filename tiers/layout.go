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

// Next returns the layout that suits the members, in the stage that their numbers ask for.
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

// ServersFor returns how many machines serve a model at most, one for each so many bytes of its rows; 0 = any number. With it the
// messages of a clock, of which every worker sends some to every server, grow with the machines and not with their square. Sparse
// rows count as full ones.
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

// Serving returns how many of so many transient machines serve: half of them (TierML, section 3.2), or fewer.
func (t Thresholds) Serving(transient int) int {
	half := (transient + 1) / 2
	return min(half, cmp.Or(t.MostServers, half))
}

// Arrange returns the layout of a stage on the members, with so many servers (0 = the stage's own number: all reliable
// machines, or half of the transient ones).
//
// Invariant: it is a pure function, and of the order of members only their age counts. Each partition has an owner and, where there
// are reliable members, a backup.
//
//  1. Members are sorted by age; those that leave serve nothing.
//  2. Servers are the stage's tier (the transient one where there is no reliable member): first those that serve now, then the oldest.
//  3. spread gives out partitions and backups in equal numbers, splits by rate. An item moves only off a member that may not have it
//     any longer, or to even out the numbers.
//
// Not done: placing by hash. It needs no earlier layout, but leaves shares uneven, and a clock takes as long as its fullest server.
func Arrange(now Layout, members []Member, stage Stage, serving int) Layout {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Joined, b.Joined), cmp.Compare(a.ID, b.ID))
	})
	reliable := pick(members, func(m Member) bool { return m.Tier == Reliable && !m.Leaving })
	transient := pick(members, func(m Member) bool { return m.Tier == Transient && !m.Leaving })

	next := Layout{Stage: stage}
	servers, workers := reliable, pick(members, func(m Member) bool { return !m.NoWork })
	if next.Stage != Stage1 || len(reliable) == 0 { // without reliable machines the others serve (footnote 7)
		servers = transient
		serving = cmp.Or(serving, (len(transient)+1)/2)
	}
	serves := now.serve()
	servers = append(pick(servers, serves), pick(servers, func(m Member) bool { return !serves(m) })...)
	servers = servers[:min(cmp.Or(serving, len(servers)), len(servers))]
	if next.Stage == Stage3 {
		workers = pick(members, func(m Member) bool { return m.Tier == Transient && !m.NoWork })
	}
	next.Route.Version = now.Route.Version
	next.Route.Owner = spread(now.Route.Owner, dataless(servers), equally)
	next.Route.Backup = spread(now.Route.Backup, dataless(reliable), equally)
	next.Worker = spread(now.Worker, workers, Member.weight)
	return next
}

// serve reports of members whether they own partitions.
func (l Layout) serve() func(Member) bool {
	owners := map[ps.ServerID]bool{}
	for _, id := range l.Route.Owner {
		owners[id] = true
	}
	return func(m Member) bool { return owners[m.ID] }
}

// Rotate returns for each partition another owner than it has in a layout: the next of those that serve or, of a single one,
// the oldest member of its tier that stays and does not. false: there is no other.
func Rotate(l Layout, members []Member) (owners []ps.ServerID, ok bool) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Joined, b.Joined), cmp.Compare(a.ID, b.ID))
	})
	serves := l.serve()
	servers := pick(members, serves)
	if len(servers) == 1 {
		others := pick(members, func(m Member) bool { return !serves(m) && m.Tier == servers[0].Tier && !m.Leaving })
		servers = append(servers, others[:min(1, len(others))]...)
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

// Prefer has the partitions of a layout owned as whoever placed the machines prefers (Parameter Service, appendix D). It reports whether
// that is so: reliable machines must serve (stage 1), and each owner be one of them that stays. Backups and splits are as before.
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

// dataless forgets the members' splits, which have nothing to do with partitions.
func dataless(members []Member) []Member {
	out := slices.Clone(members)
	for i := range out {
		out[i].Loaded = nil
	}
	return out
}

// Roles returns what a member does in a layout, in the order of the roles' constants.
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

func pick(members []Member, keep func(Member) bool) []Member {
	var out []Member
	for _, m := range members {
		if keep(m) {
			out = append(out, m)
		}
	}
	return out
}

func equally(Member) float64 { return 1 }

// weight is the share of the splits that a member works on: by its rate, so that no worker waits for a slow one.
func (m Member) weight() float64 {
	if m.Rate > 0 {
		return m.Rate
	}
	return float64(max(m.VCPU, 1))
}
