package jobmanager

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/sched"
)

// Each field of a call that changes a running job either adds no machine, or is refused when a limit is reached or a scheduler grants
// slots. A new field fails the test until it is in the table.
func TestEachFieldOfScalePassesTheGate(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.FIFO{}, 16, 8
	s.begin()
	within, overLimit, scheduled := s.grouped("vision", "", record{}), s.grouped("speech", "", record{}), s.grouped("", "", record{})
	s.mu.Lock()
	for _, id := range []string{within, overLimit} { // which the scheduler does not manage
		s.jobs[id].Counted = false
	}
	s.decided[limited{group: "speech"}] = budget.Decision{Do: budget.Pause, Why: "group speech: $2 an hour"}
	s.mu.Unlock()
	type rule struct{ limit, slots bool } // refused by
	adds, fewer, more, none := rule{true, true}, rule{false, true}, rule{limit: true}, rule{}
	table := map[string]map[any]rule{
		"Workers": {int32(1): adds, int32(-1): fewer}, "Servers": {int32(8): adds, int32(-1): fewer}, "Reliable": {int32(12): adds, int32(-1): fewer},
		"Restore": {true: adds}, "Pause": {true: none}, "Resume": {true: more}, "Wait": {true: none}, "By": {"me": none},
	}
	kind := reflect.TypeFor[call.Scale]()
	for i := range kind.NumField() {
		field := kind.Field(i).Name
		if table[field] == nil {
			t.Errorf("nobody has said whether %s adds machines", field)
		}
		for value, want := range table[field] {
			var c call.Scale
			reflect.ValueOf(&c).Elem().Field(i).Set(reflect.ValueOf(value))
			for id, refused := range map[string]bool{within: false, overLimit: want.limit, scheduled: want.slots} {
				if err := (bounds{s.Manager}).gate(id, c); (err != nil) != refused {
					t.Errorf("%s %v of %s: %v", field, value, id, err)
				}
			}
		}
	}
}

// A group's quota counts reliable machines, and a job that could never fit is refused.
func TestQuotaCountsReliableMachines(t *testing.T) {
	s := newSite(t)
	s.cfg.Quotas = map[string]Quota{"vision": {Machines: 8}}
	s.begin()
	c := s.members("vision")[0]
	name := c.upload("prices.csv", "")
	job := strings.ReplaceAll(strings.Replace(localJob, "1..16", "1..3", 1), "HOME/prices.csv", name)
	job = strings.ReplaceAll(strings.Replace(job, "start_with: 12\n", "", 1), "HOME/catalog.csv", name)
	for reliable, want := range map[string]int{"5": 201, "12": 422} {
		text := strings.Replace(job, "reliable: {type: c3.large}", "reliable: {type: c3.large, count: "+reliable+"}", 1)
		code, said := c.ask("POST", "/api/v1/jobs", submissionOf(t, text))
		if code != want || code == 422 && !strings.Contains(said, "15 machines, with the 12 of reliable.count, are more than the quota of group vision, 8") {
			t.Errorf("%s reliable: %d %s", reliable, code, said)
		}
	}
}

// A scheduled job that was stopped has lost its slots: resumed, it waits for others, and begins with its new grant, whatever it had before.
func TestResumedJobBeginsWithItsNewGrant(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.DRF{}, 16, 8
	s.begin()
	first := s.submit()
	s.asked(first, "16+0")
	if err := s.Stop(t.Context(), first, "ann", false); err != nil {
		t.Fatal(err)
	}
	s.until(first, call.Stopped)
	before, _, err := journal.ReadFile(filepath.Join(s.dir(first), rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	second := s.submit("keeps") // it returns nothing yet
	s.asked(second, "16+0")
	if err := s.Resume(first); err != nil {
		t.Fatal(err)
	}
	s.asked(second, "16-8")
	if r := s.when(first, "queued", func(r record) bool { return r.State == call.Queued }); r.Starts != 1 || r.Granted != 0 {
		t.Errorf("it was started on slots that are another's: %+v", r)
	}
	if err := os.Remove(filepath.Join(s.dir(second), "keeps")); err != nil {
		t.Fatal(err)
	}
	s.asked(first, "16-8")
	s.when(first, "started again", func(r record) bool { return r.Starts == 2 && r.State == call.Running })
	after, _, err := journal.ReadFile(filepath.Join(s.dir(first), rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	bought := 0
	for _, e := range after[len(before):] {
		if e.Kind == journal.Launch {
			bought++
		}
	}
	if bought > 8 || !strings.Contains(s.args(first), "--resume") {
		t.Errorf("it resumed with %d machines: %s", bought, s.args(first))
	}
}
