package elasticity

import (
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A reliable machine that is lost takes its backups with it. The owners have the newest values and the undo to the
// committed cut: everything returns to that cut, a replacement is bought, and the next cut is delivered to it in full. As
// long as a partition has no backup, no cut is named. What neither an owner nor a backup holds at the cut comes from the
// newest checkpoint, and then everything does.

// Backups move without a loss, too, to a reliable machine that was added or off one that is to go: the next cut is delivered
// in full to the new one, and until it is committed the old one keeps the cut before.

// loseBackups forgets what a lost machine backed up, and reports whether that was anything.
func (c *Controller) loseBackups(id ps.ServerID) (any bool) {
	for p, backup := range c.route.Backup {
		if backup == id {
			c.route.Backup[p], any = "", true
		}
	}
	return any
}

// bare reports whether a partition has no backup.
func (c *Controller) bare() bool { return c.standing() && slices.Contains(c.route.Backup, "") }

// stray reports whether a partition is backed up by another machine than the layout names.
func (c *Controller) stray(p ps.Partition) bool {
	to := c.target.Route.Backup[p]
	return c.route.Backup[p] != "" && to != "" && to != c.route.Backup[p]
}

func (c *Controller) straying() bool {
	if !c.standing() || c.target.Route.Backup == nil {
		return false
	}
	for p := range c.route.Backup {
		if c.stray(ps.Partition(p)) {
			return true
		}
	}
	return false
}

// advanceBackups gives partitions without a backup, or with one that is to go, to the machines that the layout names.
func (c *Controller) advanceBackups() {
	if !c.bare() && !c.straying() || c.wantsHalt() || c.recovery != nil || c.cut != nil || c.halt != nil || c.ending || len(c.moves) > 0 {
		return
	}
	given := map[ps.ServerID][]ps.Partition{}
	for p, backup := range c.route.Backup {
		m := c.machines[c.target.Route.Backup[p]]
		if (backup == "" || c.stray(ps.Partition(p))) && m != nil && m.member() && m.alive() && !m.warned {
			given[m.id] = append(given[m.id], ps.Partition(p))
			if old := c.machines[backup]; old != nil {
				old.keeps = true
			}
			c.route.Backup[p] = m.id
		}
	}
	if len(given) == 0 {
		return
	}
	for _, m := range c.members() {
		if len(given[m.id]) > 0 {
			c.send(m.id, tiers.BackUp{Partitions: given[m.id], Empty: true})
		}
	}
	c.route.Version++
	c.broadcast()
	c.cutDue = c.now // as soon as can be: without it only the owners hold the state
}
