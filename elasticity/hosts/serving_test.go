package hosts

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// cores returns the profile of a job whose serving takes n cores, in clocks of a second and eight partitions.
func cores(n float64) (of tiers.Profile) {
	of.Clock = time.Second
	for range 8 {
		of.Serving = append(of.Serving, time.Duration(n*float64(time.Second)/8))
	}
	return of
}

// report reports only a profile.
func report(b *Book, job string, of tiers.Profile) error {
	_, err := b.Report(start, job, tiers.Served{Profile: of})
	return err
}

// hostOf returns the host of a job's n-th slot.
func (w *world) hostOf(job string, n int) step.ID {
	w.t.Helper()
	for _, s := range w.brain.Book.Slots() {
		if s.Job != job {
			continue
		}
		if n--; n < 0 {
			return s.Host
		}
	}
	w.t.Fatalf("%s has no such slot", job)
	return ""
}

// Another slot of a job goes to a host with room unless a job would lose more than the limit there: then a host is bought.
func TestAFurtherHostWhereServingWouldSlowJobsDown(t *testing.T) {
	for _, c := range []struct {
		name     string
		profiles []tiers.Profile // of a and b
		another  bool
	}{
		{"light", []tiers.Profile{cores(0.5), cores(0.5)}, false},
		{"heavy", []tiers.Profile{cores(5), cores(5)}, true}, // of 8 vCPUs
		{"a is not measured, and the host busy", []tiers.Profile{{}, cores(12)}, true},
		{"a is not measured, and the host has time", []tiers.Profile{{}, cores(3)}, false},
		{"b is not measured, and a alone has too much for the host", []tiers.Profile{cores(12), {}}, true},
		{"b is not measured, and a has room", []tiers.Profile{cores(8), {}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "ec2-now", 0)
			for _, job := range []string{"a", "b"} {
				if _, err := w.ask(job, job+"-1", market.OnDemand, 1); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(3 * time.Minute)
			first := w.hostOf("a", 0)
			if first == "" || w.hostOf("b", 0) != first {
				t.Fatalf("two small jobs are on %q and %q", first, w.hostOf("b", 0))
			}
			for i, of := range c.profiles {
				if of.Known() {
					w.profile([]string{"a", "b"}[i], of)
				}
			}
			if _, err := w.ask("a", "a-2", market.OnDemand, 1); err != nil {
				t.Fatal(err)
			}
			w.pass(3 * time.Minute)
			if second := w.hostOf("a", 1); second == "" || (second != first) != c.another {
				t.Errorf("the second slot is on %q, the first on %q", second, first)
			}
			w.give("a", w.brain.Book.Of("a")[0].ID, w.brain.Book.Of("a")[1].ID)
			w.finish()
		})
	}
}

// A host that is unavailable does not keep a slot waiting forever, nor does a limit on hosts.
func TestASlotTakesAnyRoomInTheEnd(t *testing.T) {
	for _, most := range []int{1, 2} {
		b := NewBook(Rules{Provider: "ec2", Types: map[string]Size{slotType.Name: SizeOf(slotType)}, Loss: 0.1, Insist: time.Hour,
			Offers: map[step.Tier]Offer{step.Reliable: {Least: SizeOf(hostType), Most: most}}})
		b.AddHost("h", step.Reliable, SizeOf(hostType))
		pool := stayPool
		pool.Type = slotType.Name
		ask := func(job, token string, at time.Time) {
			t.Helper()
			if _, err := b.Ask(at, 0, job, provisioner.Request{Token: token, Pool: pool, Count: 1}, Size{}); err != nil {
				t.Fatal(err)
			}
		}
		ask("a", "1", start)
		ask("b", "2", start)
		b.Place(start, step.Reliable)
		if err := errors.Join(report(b, "a", cores(5)), report(b, "b", cores(5))); err != nil {
			t.Fatal(err)
		}
		ask("a", "3", start)
		wanted := b.Place(start, step.Reliable)
		if host := b.Slots()[2].Host; wanted != most-1 || (host == "h") != (most == 1) {
			t.Errorf("of %d hosts: %d more wanted, placed on %q", most, wanted, host)
		}
		if wanted = b.Place(start.Add(time.Hour), step.Reliable); wanted != 0 || b.Slots()[2].Host != "h" {
			t.Errorf("of %d hosts, in the end: %d more wanted, placed on %q", most, wanted, b.Slots()[2].Host)
		}
	}
}

// The load of hosts and the losses of jobs add up by slots, and an ended slot does not count.
func TestServingIsReckonedBySlots(t *testing.T) {
	b := NewBook(Rules{Provider: "ec2", Types: map[string]Size{slotType.Name: SizeOf(slotType)}, Loss: 0.1,
		Offers: map[step.Tier]Offer{step.Reliable: {Least: SizeOf(hostType), Most: 2}}})
	for i, line := range []Line{
		{Kind: Asked, Job: "a", Slots: []provisioner.InstanceID{"a1", "a2"}}, {Kind: Asked, Job: "b", Slots: []provisioner.InstanceID{"b1"}},
		{Kind: Placed, Slot: "a1", Host: "x"}, {Kind: Placed, Slot: "a2", Host: "y"}, {Kind: Placed, Slot: "b1", Host: "y"},
	} {
		line.T = start.Add(time.Duration(i) * time.Second)
		if line.Kind == Asked {
			line.Request = &provisioner.Request{Token: line.Job, Pool: stayPool, Count: len(line.Slots)}
		}
		if err := b.Apply(line); err != nil {
			t.Fatal(err)
		}
	}
	hosts := map[step.ID]Load{"x": {Cores: 8}, "y": {Cores: 8}}
	want := func(x, y, a, b2 float64) {
		t.Helper()
		got := b.Serving(hosts)
		for _, c := range [][2]float64{{got.Load["x"].Cores, x}, {got.Load["y"].Cores, y}, {got.Loss["a"], a}, {got.Loss["b"], b2}} {
			if math.Abs(c[0]-c[1]) > 1e-6 {
				t.Errorf("%+v, want %v on x, %v on y, losses %v and %v", got, x, y, a, b2)
				return
			}
		}
	}
	want(0, 0, 0, 0)
	if err := errors.Join(report(b, "a", cores(4)), report(b, "b", cores(8)), report(b, "none", cores(8))); err != nil {
		t.Fatal(err)
	}
	want(2, 10, 0.2, 0.2) // y has 8 vCPUs
	if n := len(b.Lines()); n != 2 {
		t.Errorf("%d lines for two jobs and one without slots", n)
	}
	b.Return(start, "b", "b1")
	b.Gone(start.Add(time.Minute), "y", "b1", "")
	want(2, 2, 0, 0)
	for _, bad := range []tiers.Profile{{}, {Clock: time.Second}, {Clock: -1, Serving: []time.Duration{1}}, {Clock: 1, Serving: []time.Duration{-1}}} {
		if err := report(b, "a", bad); !errors.Is(err, provisioner.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
