package jobmanager

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/dashboard"
)

// Groups and the idle share add up to the cost of the hosts and of jobs on their own machines, and each job counts once, in its group.
func TestGroupsAddUp(t *testing.T) {
	a := account{groups: map[string]*groupAccount{}}
	for _, run := range []struct {
		of             record
		spent, perHour string
	}{
		{record{Hosts: true}, "10.000000007", "1"},
		{record{Slots: true, Group: "vision"}, "4.000000001", "0.25"},
		{record{Slots: true, Group: "speech"}, "2.5", "0.25"},
		{record{Group: "vision"}, "7", "2"}, // on its own machines
		{record{Slots: true}, "", ""},       // it has cost nothing yet
	} {
		a.add(job{record: run.of}, dashboard.Summary{State: "running", Transient: 2, Spent: run.spent, PerHour: run.perHour})
	}
	sum := a.idle
	for _, of := range a.groups {
		sum += of.spent
	}
	vision := *a.groups["vision"]
	want := groupAccount{jobs: 2, running: 2, machines: 4, spent: 11*market.Dollar + 1, perHour: 9 * market.Dollar / 4}
	if sum != a.total || a.total != 17*market.Dollar+7 || a.idle != 3500000006 || vision != want || a.perHour != 3*market.Dollar || a.rest != market.Dollar/2 {
		t.Errorf("%+v of vision, idle %s and %s an hour, total %s and %s", vision, a.idle, a.rest, a.total, a.perHour)
	}
}

// The budget of a group ends its running jobs and holds its waiting ones, and no others.
func TestLimitOfAGroup(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning = 4
	s.cfg.Budgets = map[string]market.USD{"vision": 5 * market.Dollar}
	s.begin()
	_, client := s.served()
	submit := func(group string) string {
		id, err := s.Submit("job", []byte(strings.ReplaceAll(localJob, "HOME", s.home)+"group: "+group+"\n"), nil, "", "")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first, other := submit("vision"), submit("speech")
	s.clocks(first, 1)
	s.clocks(other, 1)
	limit := budget.Cluster{Of: "group vision", Total: s.cfg.Budgets["vision"], Over: budget.Stop}
	bounds{s.Manager}.keepWithin(t.Context(), limited{group: "vision"}, limit.Judge(6*market.Dollar, 0))
	if r := s.until(first, call.Stopped); !strings.HasPrefix(r.Why, "the budget of group vision, $5.00, is used up: $6.00") {
		t.Errorf("%+v", r)
	}
	waits, runs := submit("vision"), submit("speech")
	s.clocks(runs, 1)
	s.clocks(other, 5)
	job, err := client.Job(t.Context(), waits)
	if err != nil || job.State != string(call.Queued) || !strings.HasPrefix(job.Why, "held: the budget of group vision") {
		t.Errorf("%+v, %v", job, err)
	}
	account, err := client.Groups(t.Context())
	if err != nil || len(account.Groups) != 2 || account.Groups[0].Group != "speech" || account.Groups[1].Budget != (5*market.Dollar).String() ||
		account.Groups[1].Jobs != 2 || account.Groups[0].Held != "" || account.Groups[1].Held == "" {
		t.Errorf("%+v, %v", account, err)
	}
}
