package shared_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/watch/shared"
	"github.com/tierml/tierml/watch/shared/sharedtest"
	"github.com/tierml/tierml/watch/status"
)

// read feeds a run of shared hosts to a status, and reads its book.
func read(t *testing.T, runs ...string) (*status.Status, *hosts.Book) {
	t.Helper()
	dir := t.TempDir()
	if err := sharedtest.Write(dir, runs...); err != nil {
		t.Fatal(err)
	}
	entries, _, err := journal.ReadFile(filepath.Join(dir, rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	s := status.New()
	for _, e := range entries {
		s.Feed(e)
	}
	book, err := desk.NewReader(dir).Book()
	if err != nil {
		t.Fatal(err)
	}
	return s, book
}

// A quarter of a host costs a quarter of its price, the rest that no job uses is idle, and everything adds up.
func TestView(t *testing.T) {
	s, book := read(t, "a-1", "b-1")
	v, err := shared.New("shared-1", s, book, s.Now, map[string]string{"b-1": "2 of 8 by weight"})
	if err != nil {
		t.Fatal(err)
	}
	size, half := hosts.Size{VCPU: 8, MemoryMiB: 15360}, hosts.Size{VCPU: 4, MemoryMiB: 7680}
	kept := 8.0 / 10 // the vCPUs of the reliable host, and the cores that both jobs need there
	lost := 1 - kept
	both := []string{"a-1-0123abcd", "b-1-0123abcd"}
	want := shared.View{
		Run: "shared-1", PerHour: "0.58", Idle: "0.29", Total: "0.58", // both hosts' first hours
		Hosts: []shared.Host{
			{Host: "i-1", Pool: "ec2/us-west-1/us-west-1a/c3.2xlarge/on-demand", Tier: "reliable", Slots: 2, Used: half, Free: half, Size: size, Jobs: both, PerHour: "0.48", Serves: 10},
			{Host: "i-2", Pool: "ec2/us-west-1/us-west-1a/c3.2xlarge/spot", Tier: "transient", Slots: 2, Used: half, Free: half, Size: size, Jobs: both, PerHour: "0.1"},
		},
		Jobs: []shared.Tenant{
			{Job: both[0], Slots: 2, Hosts: []string{"i-1", "i-2"}, PerHour: "0.145", Why: "all slots that it requested", Serves: 5, Loss: &lost},
			{Job: both[1], Slots: 2, Hosts: []string{"i-1", "i-2"}, PerHour: "0.145", Why: "2 of 8 by weight", Serves: 5, Loss: &lost},
		},
		Bill: []shared.Pay{{Job: both[0], Held: 2, USD: "0"}, {Job: both[1], Held: 2, USD: "0"}, {USD: "0.58"}},
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got  %+v\nwant %+v", v, want)
	}
	// Running jobs pay for their time so far; half of the half hour is idle.
	paying, err := shared.New("shared-1", s, book, s.Now.Add(30*time.Minute), nil)
	bill := []shared.Pay{{Job: both[0], Held: 2, USD: "0.0725"}, {Job: both[1], Held: 2, USD: "0.0725"}, {USD: "0.435"}}
	if err != nil || !reflect.DeepEqual(paying.Bill, bill) {
		t.Errorf("after half an hour %+v, want %+v; %v", paying.Bill, bill, err)
	}
	if v.Size() != size.Plus(size) || v.Free() != half.Plus(half) {
		t.Errorf("%s of %s are free", v.Free(), v.Size())
	}
	entry := journal.Entry{T: s.Now, Kind: journal.Notice, Instance: sharedtest.Transient, Deadline: &s.Now}
	s.Feed(entry)
	if v, err = shared.New("shared-1", s, book, s.Now, nil); err != nil || !v.Hosts[1].Leaving || v.Free() != half {
		t.Errorf("a host that leaves has nothing free: %+v, %v", v, err)
	}
}

// A job that lacks slots says so, along with a scheduler's reason.
func TestSlotsThatWait(t *testing.T) {
	s, book := read(t, "a-1", "b-1", "c-1", "d-1", "e-1")
	for granted, want := range map[string]string{"": "", "1 worker, as 4 others came first": "1 worker, as 4 others came first; "} {
		v, err := shared.New("shared-1", s, book, s.Now, map[string]string{"e-1": granted})
		if err != nil {
			t.Fatal(err)
		}
		last := v.Jobs[4]
		if last.Run() != "e-1" || last.Slots != 0 || last.Waiting != 2 || last.PerHour != "0" || !strings.HasPrefix(last.Why, want+"2 ") ||
			!strings.HasSuffix(last.Why, "slots (2 vCPUs and 3840 MiB each) wait for a host with room") {
			t.Errorf("%+v", last)
		}
		if later, err := shared.New("shared-1", s, book, s.Now.Add(time.Hour), nil); err != nil || later.Waited < 3600 || later.Waited > v.Waited+3600 ||
			later.For(func(run string) bool { return run != "" }).Waited != 0 {
			t.Errorf("after an hour the longest wait is %v s, %v", later.Waited, err)
		}
		if v.Idle != "0" || v.Hosts[0].Free != (hosts.Size{}) {
			t.Errorf("full hosts have %s free, and $%s an hour idle", v.Hosts[0].Free, v.Idle)
		}
	}
}

// A client that may see only some jobs gets the number of the others, but not their names, reasons, costs or anything derived from
// these.
func TestViewOfAClient(t *testing.T) {
	s, book := read(t, "a-1", "b-1", "c-1")
	v, err := shared.New("shared-1", s, book, s.Now, map[string]string{"b-1": "after c-1"})
	if err != nil {
		t.Fatal(err)
	}
	text := func(v shared.View) string {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := text(v)
	own := v.For(func(run string) bool { return run == "a-1" })
	if is := text(own); strings.Contains(is, "b-1") || strings.Contains(is, "c-1") || own.Total != "" || own.Idle != "" || len(own.Bill) != 1 ||
		own.Hosts[0].Others != 2 || own.Hosts[0].Slots != 3 || own.Hosts[0].OthersText() != "and 2 more" || len(own.Jobs) != 1 || !slices.Equal(own.Hosts[0].Jobs, []string{"a-1-0123abcd"}) {
		t.Errorf("the client of a-1 has %s", is)
	}
	none := v.For(func(string) bool { return false })
	if none.Hosts[0].Others != 3 || none.Hosts[0].OthersText() != "3 jobs of others" || len(none.Jobs)+len(none.Bill) != 0 {
		t.Errorf("a client of no job has %s", text(none))
	}
	if all := text(v.For(func(string) bool { return true })); all != before || text(v) != before {
		t.Errorf("a client of all has %s, not %s", all, before)
	}
}

// An unknown price makes unknown shares, not free ones.
func TestUnknownPrice(t *testing.T) {
	s, book := read(t, "a-1")
	clear(s.Prices)
	v, err := shared.New("shared-1", s, book, s.Now.Add(time.Minute), nil)
	if err != nil || v.PerHour != "" || v.Idle != "" || v.Hosts[1].PerHour != "" || v.Jobs[0].PerHour != "" || v.Hosts[0].PerHour != "0.48" {
		t.Errorf("%+v, %v", v, err)
	}
}
