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

// crowd is three measured jobs on two reliable hosts of 8 vCPUs: a on both, b next to it on x, c next to it on y. Slots of d, which is not
// measured, leave no room for others.
type crowd struct {
	t    *testing.T
	b    *Book
	now  time.Time
	log  []Line // everything on disk
	most int    // limit of hosts

	reports, crashAt int  // the process is killed at this report; 0 = never
	lost             bool // before its lines are on disk
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, now: start, most: 2}
	for _, line := range []Line{
		{Kind: Asked, Job: "a", Slots: []provisioner.InstanceID{"a1", "a2"}}, {Kind: Asked, Job: "b", Slots: []provisioner.InstanceID{"b1"}},
		{Kind: Asked, Job: "c", Slots: []provisioner.InstanceID{"c1"}}, {Kind: Asked, Job: "d", Slots: []provisioner.InstanceID{"d1", "d2", "d3", "d4"}},
		{Kind: Placed, Slot: "a1", Host: "x"}, {Kind: Placed, Slot: "a2", Host: "y"}, {Kind: Placed, Slot: "b1", Host: "x"}, {Kind: Placed, Slot: "c1", Host: "y"},
		{Kind: Placed, Slot: "d1", Host: "x"}, {Kind: Placed, Slot: "d2", Host: "x"}, {Kind: Placed, Slot: "d3", Host: "y"}, {Kind: Placed, Slot: "d4", Host: "y"},
	} {
		line.T = start
		if line.Kind == Asked {
			line.Size = SizeOf(slotType)
			line.Request = &provisioner.Request{Token: line.Job, Pool: stayPool, Count: len(line.Slots)}
		}
		c.log = append(c.log, line)
	}
	c.reread()
	return c
}

// reread starts another process for the book, from what is on disk.
func (c *crowd) reread() {
	c.t.Helper()
	c.b = NewBook(Rules{Provider: "ec2", Types: map[string]Size{slotType.Name: SizeOf(slotType)}, Loss: 0.1, Insist: time.Hour,
		Offers: map[step.Tier]Offer{step.Reliable: {Least: SizeOf(hostType), Most: c.most}}})
	for _, l := range c.log {
		if err := c.b.Apply(l); err != nil {
			c.t.Fatal(err)
		}
	}
	c.b.AddHost("x", step.Reliable, SizeOf(hostType))
	c.b.AddHost("y", step.Reliable, SizeOf(hostType))
}

// says makes a job report that serving takes n cores, and that each of its last 40 clocks took clock.
func (c *crowd) says(job string, n float64, clock time.Duration, owners string) (preferred string) {
	c.t.Helper()
	c.now = c.now.Add(time.Minute)
	r := tiers.Served{Profile: cores(n), Owners: ids(owners), Clocks: 40, Lately: clock}
	p, err := c.b.Report(c.now, job, r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.reports++
	crash := c.reports == c.crashAt
	if !crash || !c.lost {
		c.keep()
	}
	if crash { // the job reports again
		c.reread()
		return c.says(job, n, clock, owners)
	}
	var out []string
	for _, id := range p.Owners {
		out = append(out, string(id))
	}
	return strings.Join(out, " ")
}

// keep writes the decisions to disk.
func (c *crowd) keep() { c.log = append(c.log, c.b.Lines()...) }

func ids(text string) (out []step.ID) {
	for _, id := range strings.Fields(text) {
		out = append(out, step.ID(id))
	}
	return out
}

const (
	even  = "a1 a2 a1 a2 a1 a2 a1 a2"
	moved = "a2 a2 a1 a2 a1 a2 a1 a2"
	onB   = "b1 b1 b1 b1 b1 b1 b1 b1"
	onC   = "c1 c1 c1 c1 c1 c1 c1 c1"
)

// busy makes x congested: a's four cores are on x and y, where b needs 7 and c needs 2.
func (c *crowd) busy() {
	c.t.Helper()
	c.says("b", 7, time.Second, onB)
	c.says("c", 2, time.Second, onC)
	if p := c.says("a", 4, time.Second, even); p != moved {
		c.t.Fatalf("x has 9 cores' work for 8: a should have %q, not %q", moved, p)
	}
}

// A partition leaves a congested host as soon as jobs lose more than the limit there, and no more than is needed (pseudocode 1, appendix
// D): 8.5 cores of 8 cost 6 %. The change stays if a hundred clocks of each of its neighbours were as short as before (3.3.2).
func TestAPartitionLeavesACongestedHost(t *testing.T) {
	c := newCrowd(t)
	c.busy()
	for range 5 {
		c.says("b", 7, time.Second, onB)
		c.says("c", 2, 1050*time.Millisecond, onC)
		if p := c.says("a", 4, time.Second, moved); p != moved {
			t.Fatalf("a should have %q", p)
		}
	}
	if c.b.watch != nil {
		t.Errorf("still watched: %+v", c.b.watch)
	}
	if s := c.b.Serving(map[step.ID]Load{"x": {Cores: 8}, "y": {Cores: 8}}); s.Load["x"].Cores != 8.5 || s.Load["y"].Cores != 4.5 || s.Loss["a"] > 0.1 || s.Loss["c"] != 0 {
		t.Errorf("with the owners that a has reported: %+v", s)
	}
	c.reread()
	if p := c.says("a", 4, time.Second, even); p != moved {
		t.Errorf("the next process prefers %q", p)
	}
}

// Partitions that made room for a neighbour return when it serves so little that no job would lose half of the limit, and not before. This
// is a change like others, known to the next process, and it is made once.
func TestPartitionsReturnWhenTheNeighbourServesLess(t *testing.T) {
	c := newCrowd(t)
	c.busy()
	owners := moved
	say := func(b float64) (preferred string) {
		for range 5 {
			c.says("b", b, time.Second, onB)
			c.says("c", 2, time.Second, onC)
			preferred = c.says("a", 4, time.Second, owners)
		}
		return preferred
	}
	if p := say(6.8); p != moved { // 8.8 cores of 8 with all partitions back
		t.Fatalf("b still serves 6.8 cores, and a should have %q", p)
	}
	if p := say(3); p != even {
		t.Fatalf("b serves 3 cores, and a should have %q", p)
	}
	c.reread()
	owners = even
	if p := say(3); p != even || c.b.watch != nil {
		t.Errorf("in the end a should have %q, watched: %+v", p, c.b.watch)
	}
	changes := 0
	for _, l := range c.log {
		if l.Kind == Preferred {
			changes++
		}
	}
	if changes != 2 {
		t.Errorf("%d changes, not one there and one back", changes)
	}
}

// A change that slows a neighbour is reverted after a hundred clocks, and not repeated while the job has the same slots. Clocks from before
// the move do not count, nor do jobs that were moved meanwhile.
func TestAMoveThatProvesSlowIsTakenBack(t *testing.T) {
	for _, one := range []struct {
		name  string
		owner string
		back  bool
	}{{"beside it", onC, true}, {"moved itself", "c1 c1 c1 c1 c1 c1 c1 elsewhere", false}} {
		c := newCrowd(t)
		c.busy()
		c.says("c", 2, 9*time.Second, onC) // a has not moved yet
		c.says("a", 4, time.Second, moved)
		c.says("c", 2, 9*time.Second, onC) // partly from before
		for n := range 3 {
			if p := c.says("a", 4, time.Second, moved); p != moved {
				t.Fatalf("%s: back after %d reports: %q", one.name, n, p)
			}
			c.says("c", 2, 1200*time.Millisecond, one.owner)
		}
		want := moved
		if one.back {
			want = even
		}
		for range 4 {
			if p := c.says("a", 4, time.Second, want); p != want {
				t.Fatalf("%s: a should have %q, not %q", one.name, want, p)
			}
		}
		if i := slices.IndexFunc(c.log, func(l Line) bool {
			return strings.Contains(l.Why, "job c lost 17 % of its speed over a hundred clocks")
		}); (i >= 0) != one.back {
			t.Errorf("%s: line %d says why", one.name, i)
		}
	}
}

// The process that keeps the book is killed at each report while a change is watched, before its lines are on disk and after: the next one
// watches the change too, and reverts it if it proves slow, or keeps it, once.
func TestAWatchedChangeIsTakenOver(t *testing.T) {
	for _, slow := range []bool{false, true} {
		story := func(crashAt int, lost bool) (reports int) {
			c := newCrowd(t)
			c.crashAt, c.lost = crashAt, lost
			c.busy()
			now, clock := moved, time.Second
			if slow {
				clock = 1200 * time.Millisecond
			}
			for range 12 { // each process starts counting a hundred clocks anew
				now = c.says("a", 4, time.Second, now)
				c.says("b", 7, time.Second, onB)
				c.says("c", 2, clock, onC)
			}
			backs, ends := 0, 0
			for _, l := range c.log {
				if l.Kind == Judged || l.Refused != nil {
					ends++
				}
				if l.Refused != nil {
					backs++
				}
			}
			if want := map[bool]string{true: even, false: moved}[slow]; now != want || ends != 1 || (backs == 1) != slow || c.b.watch != nil {
				t.Errorf("slow %v, killed at report %d, lines lost %v: a has %q after %d verdicts, %d of them against it; watched is %+v",
					slow, crashAt, lost, now, ends, backs, c.b.watch)
			}
			return c.reports
		}
		for at := story(0, false); at > 3; at-- { // the change begins with the third report
			story(at, false)
			story(at, true)
		}
	}
}

// Nothing is preferred where it is useless: on hosts with room, for jobs on one host, if owners are unknown, and if the job's slots have
// changed since. A job that does not comply does not get requests forever, and does not keep others waiting.
func TestNothingIsPreferred(t *testing.T) {
	c := newCrowd(t)
	c.says("b", 6, time.Second, onB)
	for _, owners := range []string{even, ""} {
		if p := c.says("a", 4, time.Second, owners); p != "" {
			t.Errorf("x has room, and %q is preferred", p)
		}
	}
	if c.says("b", 12, time.Second, onB); c.says("a", 4, time.Second, "") != "" {
		t.Error("partitions move from nobody knows where")
	}
	if p := c.says("b", 12, time.Second, onB); p != "" {
		t.Errorf("b has one slot, and %q is preferred", p)
	}

	c = newCrowd(t)
	c.busy()
	c.says("a", 4, time.Second, even) // watched from now on
	c.now = c.now.Add(time.Hour)
	c.says("a", 4, time.Second, even)
	c.says("a", 4, time.Second, even)
	if n := c.count(Preferred); c.b.watch != nil || n != 2 || !slices.Equal(c.log[len(c.log)-1].Owners, ids(even)) {
		t.Errorf("a does not move, and was asked %d times; watched is %+v", n, c.b.watch)
	}
	c.b.Return(c.now, "a", "a2")
	c.b.Gone(c.now, "y", "a2", "")
	c.keep()
	if p := c.says("a", 4, time.Second, "a1 a1 a1 a1 a1 a1 a1 a1"); p != "" {
		t.Errorf("on one slot %q is preferred", p)
	}
}

func (c *crowd) count(kind string) (n int) {
	for _, l := range c.log {
		if l.Kind == kind {
			n++
		}
	}
	return n
}
