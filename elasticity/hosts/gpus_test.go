package hosts

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// GPUs are whole and are assigned once. A slot without GPUs goes to a host without them, and one with GPUs pays its share of their cost.
func TestGPUsOfSlots(t *testing.T) {
	plain, rich := Size{VCPU: 8, MemoryMiB: 32_000}, Size{VCPU: 8, MemoryMiB: 32_000, GPUs: 4}
	hosts := []*Host{{ID: "a", Tier: step.Transient, Size: rich, Stays: true}, {ID: "b", Tier: step.Transient, Size: plain, Stays: true}}
	slots := []*Slot{{Tier: step.Transient, Size: Size{VCPU: 1, MemoryMiB: 1000}}}
	for range 5 {
		slots = append(slots, &Slot{Tier: step.Transient, Size: Size{VCPU: 1, MemoryMiB: 1000, GPUs: 1}})
	}
	p := NewBook(Rules{}).packed(slots, hosts, func(*Slot, step.ID) bool { return true }, rich, 1)
	for i, want := range []step.ID{"b", "a", "a", "a", "a", ""} {
		if got := p.on[slots[i]]; got != want {
			t.Errorf("slot %d is on %q, not %q", i, got, want)
		}
	}
	if p.fresh != 1 {
		t.Errorf("%d more hosts for the fifth GPU", p.fresh)
	}
	hour := []market.Charge{{From: start, To: start.Add(time.Hour), Amount: 12 * market.Dollar}}
	for want, slot := range map[market.USD]Size{
		3 * market.Dollar: {VCPU: 2, MemoryMiB: 8_000, GPUs: 1}, 4 * market.Dollar: {GPUs: 4}, 2 * market.Dollar: {VCPU: 2, MemoryMiB: 8_000},
	} {
		if got := Share(slot, rich, 0, start, start.Add(time.Hour), hour); got != want {
			t.Errorf("%s pays $%s, not $%s", slot, got, want)
		}
	}
}

// A host's GPUs are counted over all requests: those of existing slots are not assigned again.
func TestGPUsOfFormerRequestsCount(t *testing.T) {
	host := Size{VCPU: 8, MemoryMiB: 32_000, GPUs: 2}
	b := NewBook(Rules{Provider: "ec2", Types: map[string]Size{slotType.Name: {VCPU: 1, MemoryMiB: 1000, GPUs: 1}}, Loss: 0.1,
		Offers: map[step.Tier]Offer{step.Reliable: {Least: host, Most: 1}}})
	b.AddHost("h", step.Reliable, host)
	pool := stayPool
	pool.Type = slotType.Name
	for n, want := range []error{nil, nil, provisioner.ErrNoCapacity} {
		_, err := b.Ask(start, 0, "a", provisioner.Request{Token: fmt.Sprint(n), Pool: pool, Count: 1}, Size{})
		if b.Place(start, step.Reliable); !errors.Is(err, want) {
			t.Errorf("slot %d of a host with 2 GPUs: %v, not %v", n+1, err, want)
		}
	}
	if used := b.Used("h"); used != (Size{VCPU: 2, MemoryMiB: 2000, GPUs: 2}) {
		t.Errorf("the host has given away %s", used)
	}
}

// Where the job says how large its machines are, as on Kubernetes, slots have that size and its share of the host's price, whatever their type.
func TestSlotsOfASizeOfTheirOwn(t *testing.T) {
	w := newWorld(t, "ec2-now", 0)
	pool := stayPool
	own := Size{VCPU: 2, MemoryMiB: 3750} // a quarter of a host
	for n, c := range []struct {
		own  Size
		want error
	}{{own, nil}, {own, nil}, {Size{VCPU: 3, MemoryMiB: 3750}, provisioner.ErrInvalid}, {Size{VCPU: 1}, provisioner.ErrInvalid},
		{Size{VCPU: 1, MemoryMiB: 1, GPUs: -1}, provisioner.ErrInvalid}, {Size{VCPU: 9, MemoryMiB: 1}, provisioner.ErrInvalid}} {
		token := fmt.Sprint(n)
		if n < 3 { // a repeated request
			token = "same"
		}
		if _, err := w.brain.Ask(start, 0, "a", provisioner.Request{Token: token, Pool: pool, Count: 1}, c.own); !errors.Is(err, c.want) {
			t.Errorf("a slot of %v: %v, not %v", c.own, err, c.want)
		}
	}
	if slots := w.brain.Book.Slots(); len(slots) != 1 || slots[0].Size != own {
		t.Errorf("%+v", slots)
	}
	for want, size := range map[market.USD]Size{hostType.OnDemand / 4: own, hostType.OnDemand: {}} {
		if points := w.brain.SlotPrices(pool.Type, size, market.OnDemand, start, start); len(points) != 1 || points[0].Price != want {
			t.Errorf("a slot of %v costs %v, not $%s", size, points, want)
		}
	}
}
