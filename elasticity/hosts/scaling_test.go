package hosts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// single is two jobs with one slot each on one host, where serving takes 11 of 8 cores once both are measured.
func single(t *testing.T, most int) *crowd {
	c := newCrowd(t)
	c.most = most
	c.log = slices.DeleteFunc(c.log, func(l Line) bool {
		return l.Host == "y" || l.Job == "c" || l.Job == "d" || strings.HasPrefix(string(l.Slot), "d")
	})
	for i := range c.log {
		if c.log[i].Job == "a" {
			c.log[i].Slots = []provisioner.InstanceID{"a1"}
		}
	}
	c.reread()
	c.b.EndHost(start, "y", "it was never there", true)
	return c
}

const (
	onA  = "a1 a1 a1 a1 a1 a1 a1 a1"
	half = "a1 a2 a1 a2 a1 a2 a1 a2"
)

// more makes a job report as says does, and returns how many more slots it should have.
func (c *crowd) more(job string, n float64, clock time.Duration, owners string) int {
	c.t.Helper()
	c.says(job, n, clock, owners)
	return c.b.measured[job].wish.More
}

// another makes a job's controller request a slot, and get it on a host.
func (c *crowd) another(slot, host string) {
	c.t.Helper()
	if c.b.Host(step.ID(host)) == nil {
		c.b.AddHost(step.ID(host), step.Reliable, SizeOf(hostType))
	}
	r := &provisioner.Request{Token: slot, Pool: stayPool, Count: 1}
	job := slot[:1]
	c.b.write(Line{T: c.now, Kind: Asked, Job: job, Request: r, Slots: []provisioner.InstanceID{provisioner.InstanceID(slot)}, Size: SizeOf(slotType)})
	c.b.write(Line{T: c.now, Kind: Placed, Slot: provisioner.InstanceID(slot), Host: step.ID(host)})
	c.keep()
}

// A job with one slot cannot move. If serving exceeds the limit, one job gets another slot, on a further host; the watch keeps it; and when
// the others have gone it returns the slot (section 3.3.2, figure 10).
func TestAJobGetsAnotherSlot(t *testing.T) {
	c := single(t, 2)
	if n := c.more("b", 4, time.Second, ""); n != 0 {
		t.Fatalf("one job loses nothing, and should have %d slots more", n)
	}
	if n := c.more("a", 7, time.Second, onA); n != 1 {
		t.Fatalf("x has 11 cores' work for 8: a should have another slot, not %d", n)
	}
	c.another("a2", "y")
	for range 5 {
		c.says("b", 4, time.Second, "")
		if n := c.more("a", 7, time.Second, half); n != 1 {
			t.Fatalf("a should keep its slot, and has %d more", n)
		}
	}
	if c.b.watch != nil {
		t.Errorf("still watched: %+v", c.b.watch)
	}
	c.b.Return(c.now, "b", "b1")
	c.b.Gone(c.now, "x", "b1", "")
	if n := c.more("a", 7, time.Second, half); n != 1 {
		t.Fatal("given back at once, though others may come")
	}
	c.now = c.now.Add(time.Hour)
	if n := c.more("a", 7, time.Second, half); n != 0 {
		t.Errorf("a alone needs one slot, and has %d more", n)
	}
}

// If no further host is allowed, or the job has a single partition, nothing is requested. A slot that does not come, and one with which a
// job loses more, is not requested again.
func TestAnotherSlotIsTakenBack(t *testing.T) {
	c := single(t, 1)
	c.says("b", 4, time.Second, "")
	if n := c.more("a", 7, time.Second, onA); n != 0 {
		t.Errorf("of one host at most, a should have %d slots more", n)
	}

	for _, comes := range []bool{false, true} {
		c := single(t, 2)
		c.says("b", 4, time.Second, "")
		c.says("a", 7, time.Second, onA)
		owners := onA
		if comes {
			c.another("a2", "y")
			owners = half
		}
		c.says("a", 7, time.Second, owners)
		for range 4 {
			c.says("a", 7, 1300*time.Millisecond, owners)
			if !comes {
				c.now = c.now.Add(time.Hour)
			}
		}
		if comes { // until the slot is gone, nothing else is tried
			for range 2 {
				c.says("b", 6, time.Second, "")
				if p := c.says("a", 7, time.Second, owners); p != "" {
					t.Errorf("a should have %q while it gives its slot back", p)
				}
			}
			c.says("b", 4, time.Second, "")
			c.b.Return(c.now, "a", "a2")
			c.b.Gone(c.now, "y", "a2", "")
			c.keep()
		}
		for range 3 {
			if n := c.more("a", 7, time.Second, onA); n != 0 || c.b.watch != nil {
				t.Errorf("comes %v: a should have %d slots more; watched is %+v", comes, n, c.b.watch)
			}
		}
		c.reread()
		if n := c.more("a", 7, time.Second, onA); n != 0 {
			t.Errorf("comes %v: the next process wants %d slots more", comes, n)
		}
		if i := slices.IndexFunc(c.log, func(l Line) bool { return strings.Contains(l.Why, "job a lost 23 % of its speed") }); (i >= 0) != comes {
			t.Errorf("comes %v: line %d says why", comes, i)
		}
	}
}

// Room on an existing host is used before one is bought.
func TestAnotherSlotTakesRoomThatIsThere(t *testing.T) {
	c := single(t, 3)
	c.b.AddHost("y", step.Reliable, SizeOf(hostType))
	c.says("b", 4, time.Second, "")
	c.says("a", 7, time.Second, onA)
	best := balancer{c.b}.trySlot("x", "a")
	if best == nil || best.buys != 0 || best.left > 0 {
		t.Errorf("%+v", best)
	}
	if got := c.b.measured["a"].wish; got.More != 1 || got.Owners != nil {
		t.Errorf("%+v", got)
	}
	if _, err := c.b.Report(c.now, "b", tiers.Served{Profile: cores(4), Owners: ids(onB)}); err != nil || c.b.measured["b"].wish.More != 0 {
		t.Errorf("two changes at a time: %+v, %v", c.b.measured["b"].wish, err)
	}
}

// The least loaded host is emptied when the others can serve its load: its job gets a slot there, is watched, and gives up the one here;
// not before the slot has been there for a while, and not if others would lose by it.
func TestTheLeastLoadedHostIsEmptied(t *testing.T) {
	for _, one := range []struct {
		name  string
		other float64       // cores for serving a
		clock time.Duration // of c, in the end
		asked bool
		leave step.ID
	}{{"room", 2, time.Second, true, "c1"}, {"it proves slow", 2, 1300 * time.Millisecond, true, ""}, {"others would lose", 7.9, time.Second, false, ""}} {
		c := newCrowd(t)
		c.log = slices.DeleteFunc(c.log, func(l Line) bool {
			return l.Job == "d" || l.Job == "b" || strings.HasPrefix(string(l.Slot), "d") || l.Slot == "b1" || l.Slot == "a2"
		})
		for i := range c.log {
			if c.log[i].Job == "a" {
				c.log[i].Slots = []provisioner.InstanceID{"a1"}
			}
		}
		c.reread()
		c.says("a", one.other, time.Second, onA)
		if n := c.more("c", 1, time.Second, onC); n != 0 {
			t.Errorf("%s: the slot is new, and c should have %d more", one.name, n)
		}
		c.now = c.now.Add(time.Hour)
		if n := c.more("c", 1, time.Second, onC); (n == 1) != one.asked {
			t.Fatalf("%s: c should have %d slots more", one.name, n)
		}
		if !one.asked {
			continue
		}
		c.another("c2", "x")
		const both = "c1 c2 c1 c2 c1 c2 c1 c2"
		for range 4 {
			c.says("a", one.other, time.Second, onA)
			c.says("c", 1, one.clock, both)
		}
		c.says("a", one.other, time.Second, onA)
		got := c.b.measured["c"].wish
		c.reread()
		if after := c.b.measured["c"].wish; got.More != 0 || got.Leave != one.leave || got.Leave != after.Leave || c.b.watch != nil {
			t.Errorf("%s: c should have %+v, and after a takeover %+v; watched is %+v", one.name, got, after, c.b.watch)
		}
		c.b.Return(c.now, "c", "c1")
		c.b.Gone(c.now, "y", "c1", "")
		c.keep()
		if c.says("c", 1, time.Second, "c2 c2 c2 c2 c2 c2 c2 c2"); c.b.measured["c"].wish.More != 0 || c.b.watch != nil {
			t.Errorf("%s: in the end c should have %+v", one.name, c.b.measured["c"].wish)
		}
	}
}
