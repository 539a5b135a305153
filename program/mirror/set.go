package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// lastRound is the round of a gang's final states, after its programs have ended.
const lastRound = 1 << 52

// round is a round in which a gang was saved.
type round struct{ attempt, number uint64 }

// RestoreSet restores what this rank saved together with all other ranks of its gang: the generation that the
// controller names, or a later one, as machines whose controller was lost continue to save. The note then says so.
// Without a name, nil = there is no set.
//
// Invariant: all ranks of an attempt find the same set, as no earlier attempt still writes and their own saves do not
// count. A later set has a generation of each rank that is later than the named one, so that most ranks need to look
// only at their own.
func (m *Mirror) RestoreSet(ctx context.Context, name, digest string) (manifest *Manifest, note string, err error) {
	other, err := m.laterSet(ctx, name)
	if err != nil {
		return nil, "", err
	}
	switch {
	case other != "":
		manifest, err = m.Restore(ctx, other, "")
		return manifest, savedOn(other, name), err
	case name != "":
		manifest, err = m.Restore(ctx, name, digest)
	}
	return manifest, "", err
}

func savedOn(restored, named string) string {
	return fmt.Sprintf("its machine had saved on without a controller: generation %s was restored, not %s", restored, cmp.Or(named, "none"))
}

// laterSet returns this rank's generation in the newest set of all ranks; empty = none is later than the named one.
func (m *Mirror) laterSet(ctx context.Context, name string) (string, error) {
	if name != "" {
		own, err := Manifests(ctx, m.config.Store, m.config.Key)
		if err != nil || len(own) == 0 || own[0] <= name {
			return "", err
		}
	}
	saved := map[int]map[round]*Manifest{} // by rank
	rank := func(n int) (of map[round]*Manifest, err error) {
		if saved[n] == nil {
			saved[n], err = m.roundsOf(ctx, n)
		}
		return saved[n], err
	}
	first, err := rank(0)
	if err != nil {
		return "", err
	}
	var found round
	for r, of := range first {
		whole := r.attempt > found.attempt || r.attempt == found.attempt && r.number > found.number
		for n := 1; n < of.Ranks && whole; n++ {
			others, err := rank(n)
			if err != nil {
				return "", err
			}
			whole = others[r] != nil
		}
		if whole {
			found = r
		}
	}
	if found == (round{}) || m.config.Rank >= first[found].Ranks {
		return "", nil
	}
	own, err := rank(m.config.Rank)
	if err != nil || own[found].Name() <= name {
		return "", err
	}
	return own[found].Name(), nil
}

// roundsOf returns a rank's intact generations of earlier attempts.
func (m *Mirror) roundsOf(ctx context.Context, rank int) (map[round]*Manifest, error) {
	key, all := m.config.KeyOf(rank), map[round]*Manifest{}
	names, err := Manifests(ctx, m.config.Store, key)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		manifest, err := Read(ctx, m.config.Store, key, name, "")
		switch {
		case errors.Is(err, ErrDamaged):
		case err != nil:
			return nil, err
		case manifest.Round > 0 && manifest.Attempt < m.config.Attempt:
			all[round{manifest.Attempt, manifest.Round}] = manifest
		}
	}
	return all, nil
}
