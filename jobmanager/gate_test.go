package jobmanager

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
)

// Each field of a call that changes a job that runs either adds no machine, or is refused where a group has a quota or a scheduler grants slots. A new
// field fails the test until it is in the table.
func TestEachFieldOfScalePassesTheGate(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.FIFO{}, 16, 8
	s.cfg.Quotas = map[string]Quota{"vision": {Machines: 40}, "speech": {PerHour: 1}}
	s.begin()
	byQuota, byPrice, scheduled := s.grouped("vision", "", record{}), s.grouped("speech", "", record{}), s.grouped("", "", record{})
	s.mu.Lock()
	for _, id := range []string{byQuota, byPrice} { // which the scheduler does not decide about
		s.jobs[id].Counted = false
	}
	s.mu.Unlock()
	type rule struct{ quota, slots bool } // refused by
	adds, fewer, none := rule{true, true}, rule{false, true}, rule{}
	table := map[string]map[any]rule{
		"Workers": {int32(1): adds, int32(-1): fewer}, "Servers": {int32(8): adds, int32(-1): fewer}, "Reliable": {int32(12): adds, int32(-1): fewer},
		"Restore": {true: fewer}, "Pause": {true: none}, "Resume": {true: fewer}, "Wait": {true: none}, "By": {"me": none},
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
			for id, refused := range map[string]bool{byQuota: want.quota, byPrice: want.quota, scheduled: want.slots} {
				s.mu.Lock()
				if id == scheduled && field == "Resume" { // others have its slots
					s.scheduler.last.Grants = nil
				}
				s.mu.Unlock()
				if err := gate(s.Manager, id, c); (err != nil) != refused {
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
