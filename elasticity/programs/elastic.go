package programs

import (
	"fmt"
	"slices"

	"github.com/tierml/tierml/tiers"
)

// elastic is an array whose tasks are the ranks of a gang: each starts, saves and ends by itself, and knows which others run.
type elastic struct{ *Work }

// others reports whether other ranks of an elastic gang run: they include the work of a lost one.
func (w elastic) others(it *unit) bool {
	return w.cfg.Elastic && slices.ContainsFunc(w.items, func(other *unit) bool { return other != it && !other.ready.IsZero() })
}

// peersOf returns the other running ranks, as "RANK HOST:PORT".
func (w elastic) peersOf(it *unit) []string {
	peers := []string{}
	for _, other := range w.items {
		if r := &other.ranks[0]; other != it && r.w != nil && !r.startedAt.IsZero() && !r.exited {
			peers = append(peers, fmt.Sprintf("%d %s", other.number, r.w.address))
		}
	}
	return peers
}

// introduce sends the ranks of an elastic gang the list of running ranks, after changes.
func (w elastic) introduce() {
	if !w.cfg.Elastic || w.takingOver {
		return
	}
	for _, it := range w.items {
		r := &it.ranks[0]
		if !it.running() || r.exited {
			continue
		}
		if peers := w.peersOf(it); it.peers == nil || !slices.Equal(peers, it.peers) {
			it.peers = peers
			w.send(r.w, tiers.SetPeers{Attempt: it.attempt, Peers: peers})
		}
	}
}

// shake records that a rank of an elastic gang was lost with its machine, which may make another rank fail.
func (w elastic) shake() {
	if w.cfg.Elastic {
		w.shaken = w.Awake.Now()
	}
}

// wasShaken reports whether that happened recently enough to explain a rank's exit.
func (w elastic) wasShaken() bool {
	return !w.shaken.IsZero() && !w.Awake.Over(w.shaken, 2*w.patience())
}
