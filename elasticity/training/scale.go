package training

import (
	"slices"
)

// Servers is how many machines serve.
func (t *Training) Servers() (n int) {
	for _, m := range t.Nodes.Roster {
		if m.Member() && slices.Contains(t.Layout.Route.Owner, m.ID) {
			n++
		}
	}
	return n
}

// TargetServers is how many machines serve once the target is reached.
func (t *Training) TargetServers() int { return len(holdersOf(t.Layout.Target.Route.Owner)) }

// Settled reports whether nothing is on its way from one machine to another. A split that its holder was asked for is, also when
// it is to go back there.
func (t *Training) Settled() bool {
	return !t.Layout.HandingOver() && t.Recovery == nil && t.Settle == nil && t.Halt == nil && !t.Layout.Due && len(t.Layout.Moves) == 0
}

// Placed reports whether everything is where it should be, on as many servers as were asked for.
func (t *Training) Placed() bool {
	la := t.Layout
	if la.Bare() || la.straying() || !slices.Equal(la.Route.Owner, la.Target.Route.Owner) {
		return false
	}
	for i := range la.Splits {
		if la.Splits[i].Holder != la.Target.Worker[i] {
			return false
		}
	}
	return la.Servers == 0 || len(holdersOf(la.Route.Owner)) == la.Servers
}
