package jobmanager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
)

// doctor's report on a job server with a scheduler and a job for it, before anybody waits for either.
func TestSetup(t *testing.T) {
	s := newSite(t)
	s.market()
	s.keepHosts() // four hosts of eight vCPUs, four slots of c3.large each
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(s.home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sum := strings.Repeat("ab", 32)
	groups := write("groups.yaml", "vision:\n  submit: "+sum+"\n  quota: {machines: 8}\nspeech:\n  watch: "+strings.Repeat("cd", 32)+"\n")
	common := write("common.yaml", "vision:\n  submit: "+sum+"\nspeech:\n  watch: "+sum+"\n")
	large := write("large.yaml", "vision:\n  quota: {machines: 99}\n")
	token := write("token", "short")
	job := func(change ...string) *config.Job {
		t.Helper()
		text := strings.ReplaceAll(localJob, "HOME", s.home)
		text = strings.NewReplacer(append(change, "start_with: 12\n", "")...).Replace(text)
		j, err := config.Load(write("job.yaml", text))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	hosts := Setup{Scheduler: "drf", Hosts: s.cfg.Hosts, TokenFile: filepath.Join(s.home, "none")}
	with := func(change func(*Setup)) Setup { s := hosts; change(&s); return s }
	slots := func(s *Setup) { s.Hosts, s.Slots = "", 16 }
	for _, c := range []struct {
		name, check string
		setup       Setup
		job         *config.Job
		status      doctor.Status
		says        string
	}{
		{"all is well", "scheduler", hosts, nil, doctor.OK, "drf shares 4 hosts of at least 8 vCPUs"},
		{"machines of their own", "scheduler", with(slots), nil, doctor.OK, "drf shares 16 machines of jobs' own"},
		{"a misspelt policy", "scheduler", with(func(s *Setup) { s.Scheduler = "fedback" }), nil, doctor.Failed, "feedback"},
		{"nothing to share", "scheduler", with(func(s *Setup) { s.Hosts = "" }), nil, doctor.Failed, "--slots"},
		{"both", "scheduler", with(func(s *Setup) { s.Slots = 4 }), nil, doctor.Failed, "leave one of the two out"},
		{"no such hosts", "scheduler", with(func(s *Setup) { s.Hosts = "no.yaml" }), nil, doctor.Failed, "no.yaml"},
		{"no prices needed", "scheduler's prices", hosts, nil, doctor.OK, "looks at no prices"},
		{"prices", "scheduler's prices", with(func(s *Setup) { s.Scheduler = "feedback" }), nil, doctor.OK, "buys by the prices of 1 pools"},
		{"no prices", "scheduler's prices", with(func(s *Setup) { slots(s); s.Scheduler = "feedback" }), nil, doctor.Warning, "feedback:unpriced"},
		{"what failed", "scheduler's prices", with(func(s *Setup) { s.Hosts = "" }), nil, doctor.Skipped, "needs scheduler"},
		{"no token yet", "token", hosts, nil, doctor.OK, "makes one"},
		{"a bad token", "token", with(func(s *Setup) { s.TokenFile = token }), nil, doctor.Failed, "token"},
		{"groups", "groups", with(func(s *Setup) { s.Groups = groups }), nil, doctor.OK, "2 groups with 2 tokens"},
		{"no groups", "groups", with(func(s *Setup) { s.Groups = s.Hosts }), nil, doctor.Failed, "docs/server.md#groups"},
		{"a common token", "groups", with(func(s *Setup) { s.Groups = common }), nil, doctor.Warning, "groups speech and vision have a token in common"},
		{"a large quota", "groups", with(func(s *Setup) { s.Groups = large }), nil, doctor.Warning, "never more than 32"},
		{"a job", "job's machines", hosts, job(), doctor.OK, "1 to 16 workers of the 16"},
		{"a wide job", "job's machines", hosts, job("1..16", "4..32"), doctor.Warning, "resources.count: 4..16"},
		{"a job too large", "job's machines", hosts, job("1..16", "17..32"), doctor.Failed, "it would wait forever"},
		{"a job of other types", "job's machines", hosts, job("any_of: [{type: c3.large}]", "any_of: [{type: c9.huge}]"), doctor.Failed, "none of its types"},
		{"a job of vCPUs", "job's machines", with(slots), job("count: 1..16", "vcpu: 16"), doctor.Failed, "write count"},
		{"a job of no group", "job's group", hosts, job(), doctor.OK, "none"},
		{"an unknown group", "job's group", with(func(s *Setup) { s.Groups = groups }), job("name: job", "name: job\ngroup: visoin"), doctor.Warning, "add it to"},
		{"beyond its quota", "job's group", with(func(s *Setup) { s.Groups = groups }), job("name: job", "name: job\ngroup: vision"), doctor.Failed, "the quota of group vision"},
		{"within it", "job's group", with(func(s *Setup) { s.Groups = groups }), job("name: job", "name: job\ngroup: vision", "1..16", "1..4"), doctor.OK, "machines: 8"},
		{"feedback for nobody", "job's feedback", hosts, job("name: job", "name: job\nfeedback: [{at: 10, keep: 2}]", "clocks: 1000000,", "clocks: 40,"), doctor.Warning, "--scheduler feedback"},
		{"feedback", "job's feedback", with(func(s *Setup) { s.Scheduler = "h" }), job("name: job", "name: job\nfeedback: [{at: 10, keep: 2}]", "clocks: 1000000,", "clocks: 40,"), doctor.OK, "stops or pauses"},
	} {
		found := false
		for _, r := range doctor.Run(t.Context(), c.setup.Checks(c.job), func(doctor.Result) {}) {
			if r.Check != c.check {
				continue
			}
			found = true
			if text := r.Found + " " + r.Advice; r.Status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%s: %s, %s; want %s, %q", c.name, r.Status, text, c.status, c.says)
			}
		}
		if !found {
			t.Errorf("%s: no check %s", c.name, c.check)
		}
	}
}
