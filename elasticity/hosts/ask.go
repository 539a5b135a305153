package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/provisioner"
)

// Ask grants slots to a user's job, as provisioner.Cloud's Launch does: repeating a request returns the same slots. Zero own: slots have the
// size of their type.
func (b *Book) Ask(now time.Time, user int, job string, r provisioner.Request, own Size) ([]provisioner.Instance, error) {
	if q := b.requests[key(job, r.Token)]; q != nil {
		if !same(q.of, r) || own != (Size{}) && own != q.slots[0].Size {
			return nil, fmt.Errorf("asking for slots: %w: the token %q has been used for another request", provisioner.ErrInvalid, r.Token)
		}
		return b.instances(q.slots), nil
	}
	if err := r.Validate(b.Traits()); err != nil {
		return nil, fmt.Errorf("asking for slots: %w", err)
	}
	tier := tierOf(r.Pool.Class)
	size, known := b.rules.sizeOf(r.Pool.Type, own)
	offer, offered := b.rules.Offers[tier]
	switch {
	case own != (Size{}) && (own.VCPU < 1 || own.MemoryMiB < 1 || own.GPUs < 0):
		return nil, fmt.Errorf("asking for slots: %w: no slot has %s", provisioner.ErrInvalid, size)
	case !known:
		return nil, fmt.Errorf("asking for slots: %w: no type %q is on sale here", provisioner.ErrInvalid, r.Pool.Type)
	case !offered:
		return nil, fmt.Errorf("asking for slots: %w: there are no %s shared hosts here", provisioner.ErrInvalid, tier)
	case !size.fits(offer.Least):
		return nil, fmt.Errorf("asking for slots: %w: a slot of type %s has %s, and the smallest %s host %s: ask for a smaller type",
			provisioner.ErrInvalid, r.Pool.Type, size, tier, offer.Least)
	}
	wanted := make([]*Slot, r.Count)
	for i := range wanted {
		wanted[i] = &Slot{Job: job, Tier: tier, Size: size, Asked: now}
	}
	got := r.Count
	for _, s := range b.pack(now, tier, wanted...).later {
		if slices.Contains(wanted, s) {
			got--
		}
	}
	if got == 0 {
		return nil, fmt.Errorf("asking for slots: %w: the shared hosts are full, and there may be %d %s hosts at most", provisioner.ErrNoCapacity, offer.Most, tier)
	}
	r.Tags = maps.Clone(r.Tags)
	line := Line{T: now, Kind: Asked, User: user, Job: job, Request: &r, Size: size}
	for i := range got {
		line.Slots = append(line.Slots, provisioner.InstanceID(fmt.Sprintf("slot-%06d", len(b.slots)+i+1)))
	}
	b.write(line)
	return b.instances(b.requests[key(job, r.Token)].slots), nil
}

// same compares requests as stored, where times are only instants.
func same(a, b provisioner.Request) bool {
	left, err1 := json.Marshal(a)
	right, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(left, right)
}

// Place puts waiting slots on hosts with room, and returns how many new hosts a tier needs for the others.
func (b *Book) Place(now time.Time, tier step.Tier) (fresh int) {
	p := b.pack(now, tier)
	for _, s := range b.live { // in order: lines must not depend on map order
		if host, found := p.on[s]; found {
			b.write(Line{T: now, Kind: Placed, Slot: s.ID, Host: host})
		}
	}
	return p.fresh
}

// pack packs a tier's waiting slots and then the others.
func (b *Book) pack(now time.Time, tier step.Tier, more ...*Slot) packing {
	var waiting []*Slot
	for _, s := range b.live {
		if s.Tier == tier && s.waiting() {
			waiting = append(waiting, s)
		}
	}
	there := b.staying(tier)
	has := capacities(there)
	suits := func(s *Slot, host step.ID) bool {
		wanted := func(id step.ID) bool {
			to := b.hosts[id]
			return to != nil && to.Stays && b.needs(s).fits(to.free()) && !b.neighbours(s.Job, id)
		}
		if to := b.measured[s.Job].to; tier == step.Reliable && slices.ContainsFunc(to, wanted) {
			return slices.Contains(to, host) && wanted(host)
		}
		return tier != step.Reliable || now.Sub(s.Asked) >= b.rules.Insist || b.bearable(has, s, host)
	}
	offer := b.rules.Offers[tier]
	return b.packed(append(waiting, more...), there, suits, offer.Least, max(offer.Most-len(there), 0))
}

// bearable reports whether no job on a reliable host would lose more than the limit after one more slot there, over which the job's
// partitions would be spread, too. A job that is not measured yet is measured where serving takes less than half of a host, if necessary on
// a host of its own (section 3.3.1, temporary aggregators): there sharing costs it nothing. An overloaded host is no relief for its own job.
func (b *Book) bearable(has map[step.ID]Load, s *Slot, host step.ID) bool {
	others := slices.ContainsFunc(b.On(host), func(o *Slot) bool { return o.Job != s.Job && b.measured[o.Job].profile.Known() })
	switch {
	case !others && !b.neighbours(s.Job, host):
		return true
	case !b.measured[s.Job].profile.Known():
		t := tenants(b.live, b.measured, has, b.rules.Loss)
		return !others || t.shareAt(host) < 0.5
	}
	t := b.spread(has, s.Job, append(slices.Clone(b.live), &Slot{Job: s.Job, Host: host}))
	return t.lossAt(host) <= b.rules.Loss
}

// tenancy returns the present state on the reliable hosts that stay.
func (b *Book) tenancy() tenancy {
	return tenants(b.live, b.measured, capacities(b.staying(step.Reliable)), b.rules.Loss)
}

// spread returns the state after spreading a job's partitions evenly over its reliable slots among these.
func (b *Book) spread(has map[step.ID]Load, job string, slots []*Slot) tenancy {
	spread := maps.Clone(b.measured)
	spread[job] = measured{profile: b.measured[job].profile}
	return tenants(slots, spread, has, b.rules.Loss)
}
