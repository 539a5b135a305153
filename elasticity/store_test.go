package elasticity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// store is the blob store of the world: machines' saved files, by folder, and the manifests.
type store struct {
	parts     map[string]map[ps.Partition]ps.Block
	manifests map[string]ps.Clock // complete checkpoints by name
	damaged   map[string]bool     // of manifests
	full      time.Time           // writes fail until then
	slow      time.Duration       // the maximum time for writing a partition
}

func newStore() store {
	return store{parts: map[string]map[ps.Partition]ps.Block{}, manifests: map[string]ps.Clock{}, damaged: map[string]bool{}, slow: 100 * time.Millisecond}
}

// saveCut writes a cut bit by bit, while others are committed.
func (n *node) saveCut(id uint64, do tiers.SaveCut) {
	held := map[ps.Partition]*ps.Held{}
	for _, p := range do.Partitions {
		h, err := n.backups[p].Hold(do.Cut)
		if err != nil {
			n.w.failf("%s is to save cut %d of partition %d: %v", n.id, do.Cut, p, err)
		}
		held[p] = h
	}
	n.writePart(id, do, held, nil)
}

func (n *node) writePart(id uint64, do tiers.SaveCut, held map[ps.Partition]*ps.Held, done []tiers.SavedPart) {
	if len(done) == len(do.Partitions) {
		n.answer(id, nil, tiers.Saved{Parts: done})
		return
	}
	w, p := n.w, do.Partitions[len(done)]
	var rows ps.Block
	var next func()
	next = func() {
		piece, err := held[p].Next(1)
		switch {
		case n.dead:
			return
		case err == nil && w.now.Before(w.store.full):
			err = failure("no space left on device")
		}
		if err != nil {
			for _, h := range held {
				h.Release()
			}
			n.answer(id, err, nil)
			return
		}
		if len(piece.Keys) > 0 {
			piece.Each(&w.schema, func(k ps.Key, cells []float32) { rows.Add(k, cells) })
			w.after(w.delay(max(w.store.slow/8, 1)), next)
			return
		}
		held[p].Release()
		if w.store.parts[do.Folder] == nil {
			w.store.parts[do.Folder] = map[ps.Partition]ps.Block{}
		}
		w.store.parts[do.Folder][p] = rows
		n.writePart(id, do, held, append(done, tiers.SavedPart{Partition: p, Object: string(n.id), Bytes: 1}))
	}
	w.after(w.delay(w.store.slow), next)
}

// writeManifest checks that a checkpoint's contents are the cut, to the last bit.
func (w *world) writeManifest(a WriteManifest) {
	life := w.life
	w.after(w.delay(50*time.Millisecond), func() {
		if life != w.life || w.absent {
			return
		}
		if w.now.Before(w.store.full) {
			w.step(ManifestWritten{Folder: a.Folder, Err: failure("no space left on device")})
			return
		}
		if len(a.Parts) != w.schema.Partitions {
			w.failf("checkpoint %s has %d parts of %d", a.Folder, len(a.Parts), w.schema.Partitions)
		}
		for i, part := range a.Parts {
			if part.Partition != ps.Partition(i) {
				w.failf("part %d of checkpoint %s is partition %d", i, a.Folder, part.Partition)
			}
			w.checkRows("saved partition", part.Partition, w.restored(a.Folder, part.Partition, a.Cut), a.Cut)
		}
		w.store.manifests[a.Folder+".json"] = a.Cut
		w.step(ManifestWritten{Folder: a.Folder, Manifest: a.Folder + ".json"})
	})
}

// damageNewest makes the newest checkpoint unusable.
func (w *world) damageNewest() {
	if name, at := w.newestCheckpoint(); at > 0 {
		w.store.damaged[name] = true
	}
}

// restored returns a checkpoint's copy of a partition.
func (w *world) restored(folder string, p ps.Partition, cut ps.Clock) *ps.Shard {
	rows, ok := w.store.parts[strings.TrimSuffix(folder, ".json")][p]
	if !ok {
		w.failf("checkpoint %s has no partition %d", folder, p)
	}
	s, err := ps.RestoreShard(&w.schema, p, cut, &rows)
	if err != nil {
		w.failf("checkpoint %s, partition %d: %v", folder, p, err)
	}
	return s
}

// restoredBackup returns the backup of a partition for a BackUp command.
func (w *world) restoredBackup(do tiers.BackUp, p ps.Partition) *ps.Backup {
	switch {
	case do.Empty:
		return ps.NewEmptyBackup(&w.schema, p)
	case do.Checkpoint == "":
		return ps.NewBackup(&w.schema, p)
	}
	rows := w.store.parts[strings.TrimSuffix(do.Checkpoint, ".json")][p]
	b, err := ps.RestoreBackup(&w.schema, p, do.Cut, &rows)
	if err != nil {
		w.failf("checkpoint %s, backup of partition %d: %v", do.Checkpoint, p, err)
	}
	return b
}

// checkSaves: checkpoints are of committed cuts, newer each time.
func (w *world) checkSaves() error {
	last := int64(0)
	for _, e := range w.entries {
		if e.Kind != journal.Checkpoint {
			continue
		}
		if at, ok := w.store.manifests[e.Model]; !ok || int64(at) != e.Clock || e.Clock <= last && w.count(journal.Rollback) == 0 {
			return fmt.Errorf("checkpoint %d after %d, %s", e.Clock, last, e.Model)
		}
		last = e.Clock
	}
	return nil
}

// beginAt is a Recover for a cut that no machine holds any more.
func (n *node) beginAt(do tiers.Recover) error {
	if do.Generation < n.generation {
		return failure("an older generation")
	}
	if n.w.store.damaged[do.Checkpoint] && slices.Contains(append(slices.Clone(do.Route.Owner), do.Route.Backup...), n.id) {
		return tiers.ErrDamaged
	}
	n.beginGeneration(do.Generation)
	n.shards, n.backups = map[ps.Partition]*ps.Shard{}, map[ps.Partition]*ps.Backup{}
	n.leaving, n.gone, n.arrived, n.fenced = map[ps.Partition]bool{}, map[ps.Partition]ps.ServerID{}, map[ps.Partition]moveID{}, map[ps.Incarnation]bool{}
	for p := range do.Route.Owner {
		p := ps.Partition(p)
		if do.Route.Owner[p] == n.id {
			if n.shards[p] = ps.NewShard(&n.w.schema, p); !do.Initial {
				n.shards[p] = n.w.restored(do.Checkpoint, p, do.Cut)
			}
			n.w.checkRows("partition begun again", p, n.shards[p], do.Cut)
		}
		if do.Route.Backup[p] == n.id {
			n.backups[p] = n.w.restoredBackup(tiers.BackUp{Checkpoint: do.Checkpoint, Cut: do.Cut}, p)
		}
	}
	n.suspended, n.recovered = false, do.Cut
	return n.SetRoute(do.Generation, do.Route, do.Peers)
}
