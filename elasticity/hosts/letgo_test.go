package hosts

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// letGo requests the release of a host, until there is an answer.
func (w *world) letGo(id provisioner.InstanceID) error {
	for done := false; !done; w.recover() {
		w.inbox = append(w.inbox, elasticity.ScaleWanted{ID: 1, Cancel: string(id), By: "scheduler feedback"})
		w.guarded(func() { w.step(); done = true })
	}
	return w.answer
}

// A host that is not worth its price takes no more slots, keeps those it has until shortly before its paid time ends, and then warns them
// as a provider does: there is room elsewhere, and no other host is bought for them.
func TestAHostIsLetGo(t *testing.T) {
	for rules, stays := range map[string]bool{"ec2-2017": true, "ec2-now": false} {
		w := newWorld(t, rules, 0)
		if _, err := w.ask("a", "a-1", market.Spot, 4); err != nil { // four fill a host
			t.Fatal(err)
		}
		got, err := w.ask("b", "b-1", market.Spot, 4)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		goes := w.brain.Book.byID[got[0].ID].Host
		w.give("a", w.brain.Book.Of("a")[0].ID, w.brain.Book.Of("a")[1].ID)
		w.give("b", got[0].ID, got[1].ID)
		w.pass(time.Minute)
		if err := w.letGo(provisioner.InstanceID(goes)); err != nil {
			t.Fatal(err)
		}
		if err := w.letGo(provisioner.InstanceID(goes)); err != nil { // a repeated request is idempotent
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if has := len(w.brain.Book.Deadlines("b")) == 0; has != stays {
			t.Errorf("%s: two minutes later its slots are warned: %t", rules, !has)
		}
		w.pass(55 * time.Minute) // to the end of the hour
		if h := w.brain.Book.Host(goes); h != nil {
			t.Errorf("%s: it is still there: %+v", rules, h)
		}
		if _, err := w.ask("b", "b-2", market.Spot, 2); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		if n := len(w.rented); n != 2 {
			t.Errorf("%s: %d hosts were bought, and two are enough", rules, n)
		}
		for id, why := range map[string]string{"i-999": "there is no host", "": "jobs decide"} {
			if err := w.letGo(provisioner.InstanceID(id)); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%q was let go: %v", id, err)
			}
		}
		w.finish()
	}
}
