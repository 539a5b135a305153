package hosts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Slots end if their host is unknown: the journal has lost lines, or the cloud belonged to the previous process.
func TestStrandedSlotsEnd(t *testing.T) {
	w := newWorld(t, "ec2-2017", 0)
	if _, err := w.ask("a", "a-1", market.Spot, 1); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Minute)
	w.entries, w.rented, w.cloud = nil, nil, map[string][]*rented{}
	clear(w.running)
	w.begin()
	w.pass(time.Minute)
	if i := w.brain.Book.Of("a")[0]; i.State != provisioner.Terminated || i.EndedBy != market.ByProvider || !i.Presumed {
		t.Errorf("a slot without a host is %+v", i)
	}
}

// A job's streams may break before the hosts notice that one is gone. Then the slot that the job returns ended with its host, which is not
// the job's fault. A slot returned before the host's end was ended by the job.
func TestHostGoneBeforeItsSlotIsGivenBack(t *testing.T) {
	w := newWorld(t, "ec2-2017", 0)
	if _, err := w.ask("a", "a-1", market.Spot, 2); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Minute)
	book, host, gone := w.brain.Book, w.hostOf("a", 0), w.now
	slots := book.Of("a")
	book.Return(gone.Add(-time.Second), "a", slots[0].ID)
	book.Return(gone.Add(time.Second), "a", slots[1].ID)
	book.EndHost(gone, host, "it was taken", true)
	slots = book.Of("a")
	for i, by := range []market.EndedBy{market.ByUser, market.ByProvider} {
		if s := slots[i]; s.EndedBy != by || !strings.Contains(s.Reason, string(host)) {
			t.Errorf("slot %d is %+v, not ended by the %s for its host %s", i, s, by, host)
		}
	}
}

// A slot's process may run on if its host's end was not observed: its cloud was killed, or its agent fell silent. Its job must not start
// another copy as if the machine were gone.
func TestSlotsWhoseEndNobodySaw(t *testing.T) {
	for name, ends := range map[string]func(*world, *rented){
		"seen":   func(w *world, r *rented) { w.end(r.ID, market.ByProvider, "taken back") },
		"killed": func(w *world, r *rented) { w.end(r.ID, market.ByUser, "the cloud was killed"); r.Presumed = true },
		"silent": func(w *world, r *rented) { r.silent = true },
	} {
		w := newWorld(t, "ec2-2017", 0)
		if _, err := w.ask("a", "a-1", market.Spot, 1); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Minute)
		ends(w, w.rented[0])
		w.pass(20 * time.Minute)
		if i := w.brain.Book.Of("a")[0]; i.State != provisioner.Terminated || i.Presumed != (name != "seen") {
			t.Errorf("%s: the slot is %+v", name, i)
		}
	}
}

// Impossible requests say why.
func TestRefusals(t *testing.T) {
	w := newWorld(t, "ec2-2017", 0)
	pool := spotPool
	pool.Type = "slot.giant"
	_, err := w.brain.Ask(w.now, 0, "a", provisioner.Request{Token: "1", Pool: pool, Count: 1}, Size{})
	if !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("an unknown type: %v", err)
	}
	if got, err := w.ask("a", "2", market.OnDemand, 40); err != nil || len(got) != 12 { // 3 hosts of 4 slots each
		t.Errorf("%d slots of 3 hosts with room for 4 each: %v", len(got), err)
	}
	if got, err := w.ask("b", "3", market.OnDemand, 1); !errors.Is(err, provisioner.ErrNoCapacity) {
		t.Errorf("a full tier gave %v, %v", got, err)
	}
}
