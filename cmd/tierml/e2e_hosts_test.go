package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

const sharedHosts = `name: shared
cloud: local
resources: {count: 4, any_of: [{type: c3.2xlarge}]}
reliable: {type: c3.2xlarge, count: 1}
policy: tierml-noswitch
hosts: {wait: 20h}
max_duration: 1000h
orphan_after: 1m
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  flops_per_vcpu: 5000
`

const sharingJob = `name: %s
cloud: local
resources: {count: 2, any_of: [{type: c3.large}]}
reliable: {type: c3.large}
policy: tierml-noswitch
orphan_after: 1m
max_duration: 1000h
train:
%s
  splits: 8
  partitions: 4
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  flops_per_vcpu: 5000
`

// classes are points around two centres, for jobs that classify.
func classes() string {
	random := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	b.WriteString("x,y,class\n")
	for i := range 400 {
		fmt.Fprintf(&b, "%.3f,%.3f,%d\n", random.NormFloat64()+float64(2*(i%2)), random.NormFloat64(), i%2)
	}
	return b.String()
}

// bagOfWords returns a bag of words in UCI form: documents of two topics.
func bagOfWords() string {
	random := rand.New(rand.NewPCG(5, 5))
	var b strings.Builder
	const documents, words, each = 40, 20, 8
	fmt.Fprintf(&b, "%d\n%d\n%d\n", documents, words, documents*each)
	for d := range documents {
		for w := range each {
			fmt.Fprintf(&b, "%d %d %d\n", d+1, d%2*words/2+w+1, 1+random.IntN(4))
		}
	}
	return b.String()
}

// sharedMarket writes a market of hosts and slots, and data for jobs of four kinds.
func (s *site) sharedMarket() {
	s.t.Helper()
	s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\nus-west-1,c3.2xlarge,8,15,0.480\n")
	var prices strings.Builder
	prices.WriteString("timestamp,zone,instance_type,product,price\n")
	for _, at := range []string{"2014-03-01T00:00:00Z", "2014-03-31T00:00:00Z", "2014-06-01T00:00:00Z"} {
		fmt.Fprintf(&prices, "%s,us-west-1a,c3.large,Linux/UNIX,0.025\n%[1]s,us-west-1a,c3.2xlarge,Linux/UNIX,0.1\n", at)
	}
	s.write("prices.csv", prices.String())
	s.write("classes.csv", classes())
	s.write("docword.two.txt", bagOfWords())
}

// Jobs share one reliable host and transient ones; make hosts runs four. The agent of a transient host is killed, and the journal of each
// of its jobs names the host. Later all transient hosts are evicted at once, while the process that keeps the hosts is killed and replaced.
// Each model is byte for byte that of the job alone in one process, and the jobs' charges and the idle share add up to the cloud's bill, to
// the billionth.
func TestJobsShareHosts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sharedMarket()
	s.write("shared.yaml", sharedHosts)
	times := 1
	if raced.Detector { // commands take seconds each, and jobs take no longer than without it
		times = 2
	}
	trains := map[string]string{ // each for 40 s or more, most of it idle
		"mf":  fmt.Sprintf("  app: mf\n  clocks: %d\n  data: ratings.csv\n  params: {rank: 4, batches: 4}", 40*times),
		"lda": fmt.Sprintf("  app: lda\n  clocks: %d\n  data: docword.two.txt\n  params: {topics: 2}", 25*times),
		"mlr": "  app: mlr\n  clocks: 1000\n  data: classes.csv\n  params: {target: class}",
		"dnn": "  app: dnn\n  clocks: 16\n  data: classes.csv\n  params: {target: class}",
	}
	names := []string{"mf", "lda"}
	if os.Getenv("TIERML_TEST_HOSTS") != "" {
		names = append(names, "mlr", "dnn")
	}
	cloud, endpoint := s.cloud("600", "5000")
	keeper := s.start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
	s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
	var runs []*process
	for _, name := range names {
		s.write(name+".yaml", fmt.Sprintf(sharingJob, name, trains[name]))
		runs = append(runs, s.start("run", "-y", "--plain", "--on", "shared-1", name+".yaml"))
	}
	for i, name := range names {
		s.until(runs[i], name+"-1", "its slots", func(entries []journal.Entry) bool { return count(entries, journal.Join) == 3 })
	}
	s.planOfSlots()
	var shown shared.View
	s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	rest := usd(t, shown.PerHour) - usd(t, shown.Idle)
	for _, j := range shown.Jobs {
		if rest -= usd(t, j.PerHour); j.Slots != 3 || len(j.Hosts) < 2 || !slices.Contains(names, strings.TrimSuffix(j.Run(), "-1")) {
			t.Errorf("on the hosts is %+v", j)
		}
	}
	if len(shown.Jobs) != len(names) || rest != 0 {
		t.Errorf("shares and the idle part do not add up to the hosts' price: $%s of %+v", rest, shown)
	}
	var rows []dashboard.Summary
	s.command(&rows, "ps", "-o", "json")
	for _, row := range rows {
		if on := len(row.On) > 0; on != (row.Run != "shared-1") {
			t.Errorf("%s is on the shared hosts %v", row.Run, row.On)
		}
	}
	s.killHost(shown)
	s.tell(endpoint, "evict all")
	keeper.signal(syscall.SIGKILL)
	keeper.wait(-1)
	keeper = s.start("hosts", "-y", "--plain", "--resume", filepath.Join(rundir.Root, "shared-1"))
	s.poll("the next process of the shared hosts", func() bool { return count(s.journal("shared-1"), journal.Start) == 2 })
	s.poll("the end of the transient hosts", func() bool { return count(s.journal("shared-1"), journal.Evicted) > 0 })
	for _, run := range runs {
		if printed := strings.Join(strings.Fields(run.wait(0)), " "); !strings.Contains(printed, "Machines are slots of shared hosts") {
			t.Errorf("the plan does not say that machines are slots:\n%s", printed)
		}
	}
	s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	if idle := shown.Bill[len(shown.Bill)-1]; strings.HasPrefix(idle.USD, "-") {
		t.Errorf("before the hosts end, the idle share is $%s: %+v", idle.USD, shown)
	}
	s.start("stop", "shared-1").wait(0)
	keeper.wait(0)
	s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	pays := map[string]market.USD{}
	var sum market.USD
	for _, row := range shown.Bill {
		name, _, _ := strings.Cut(row.Job, "-")
		pays[name] = usd(t, row.USD)
		sum += usd(t, row.USD)
	}
	if bill := s.billOf(endpoint); bill.Total != sum || bill.Total != usd(t, shown.Total) || sum == 0 {
		t.Errorf("jobs and idle share come to $%s, the hosts to $%s, the cloud's bill to $%s", sum, shown.Total, bill.Total)
	}
	if len(shown.Hosts) > 0 || len(pays) != len(names)+1 || pays[""] < 0 {
		t.Errorf("left are %+v; it was paid %v", shown.Hosts, pays)
	}
	reliable := 0
	for _, i := range s.instances(endpoint) {
		if i.Pool.Class == market.OnDemand {
			reliable++
		}
	}
	if reliable != 1 {
		t.Errorf("%d reliable hosts were bought for %d slots that fit on one", reliable, len(names))
	}
	for _, name := range names {
		var report cost.Report
		s.command(&report, "report", filepath.Join(rundir.Root, name+"-1"), "-o", "json")
		if report.Totals.Total != pays[name] || pays[name] == 0 {
			t.Errorf("%s: its report says $%s, the shared hosts $%s", name, report.Totals.Total, pays[name])
		}
		noticed, ends := map[string]bool{}, ""
		for _, e := range s.journal(name + "-1") {
			switch e.Kind {
			case journal.Notice:
				noticed[e.Instance] = true
			case journal.Evicted, journal.Terminated:
				// A job whose streams broke may give up waiting before the shared hosts are back to name the lost host.
				if strings.Contains(e.Why, "its host i-") || noticed[e.Instance] && strings.Contains(e.Why, "its stream broke") {
					continue
				}
				ends += "\n" + e.Instance + ": " + e.Why
			}
		}
		if len(noticed) == 0 || strings.Count(ends, "\n") != 3 || strings.Count(ends, "the run is over") != 3 {
			t.Errorf("%s: %d slots had notice, and its machines ended because:%s", name, len(noticed), ends)
		}
		s.trainedAsAlone(name+"-1", s.path(name+".yaml"))
	}
	cloud.signal(syscall.SIGTERM)
	cloud.wait(0)
	s.nothingRuns()
}

// planOfSlots plans a job for the shared hosts whose own market has other prices: a slot costs a quarter of its host, and a slot larger
// than any host is not on sale.
func (s *site) planOfSlots() {
	s.t.Helper()
	for from, to := range map[string]string{"catalog.csv": "own-catalog.csv", "prices.csv": "own-prices.csv"} {
		text, err := os.ReadFile(s.path(from))
		if err != nil {
			s.t.Fatal(err)
		}
		s.write(to, strings.NewReplacer("0.120", "0.777", "0.025", "0.555").Replace(string(text)))
	}
	job := fmt.Sprintf(sharingJob, "planned", "  app: mlr\n  clocks: 1000\n  data: classes.csv\n  params: {target: class}")
	s.write("planned.yaml", strings.NewReplacer(" prices.csv", " own-prices.csv", " catalog.csv", " own-catalog.csv").Replace(job))
	for _, c := range []struct {
		args               []string
		spot, onDemandEach string
	}{{nil, "0.555", "0.777"}, {[]string{"--on", "shared-1"}, "0.025", "0.12"}} {
		var plan journal.PlanDetails
		s.command(&plan, append([]string{"plan", "planned.yaml", "-o", "json"}, c.args...)...)
		chosen := slices.IndexFunc(plan.Pools, func(p journal.PlanPool) bool { return p.Chosen })
		if p := plan.Pools[chosen]; p.Price != c.spot || p.OnDemand != c.onDemandEach {
			s.t.Errorf("plan %v: $%s on spot and $%s on demand, want %s and %s", c.args, p.Price, p.OnDemand, c.spot, c.onDemandEach)
		}
	}
}

// killHost kills the agent of the transient host with the most jobs. The journal of each job names the host, and each job gets the same
// number of slots elsewhere.
func (s *site) killHost(shown shared.View) {
	s.t.Helper()
	victim := slices.MaxFunc(shown.Hosts, func(a, b shared.Host) int {
		return cmp.Or(strings.Compare(a.Tier, b.Tier), len(a.Jobs)-len(b.Jobs), strings.Compare(a.Host, b.Host))
	})
	if victim.Tier != string(step.Transient) || len(victim.Jobs) == 0 {
		s.t.Fatalf("no transient host has a job: %+v", shown.Hosts)
	}
	joined := map[string]int{}
	for _, job := range victim.Jobs {
		joined[job] = count(s.journal(shared.RunOf(job)), journal.Join)
	}
	if err := syscall.Kill(s.logging("cloudlogs", victim.Host+".log"), syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	for _, job := range victim.Jobs {
		s.poll(job+"'s slots elsewhere, with the name of the host that went", func() bool {
			entries, lost := s.journal(shared.RunOf(job)), map[string]bool{}
			for _, e := range entries {
				if strings.Contains(e.Why, "its host "+victim.Host+" is gone") {
					lost[e.Instance] = true
				}
			}
			return len(lost) > 0 && count(entries, journal.Join) >= joined[job]+len(lost)
		})
	}
}

// usd parses an amount.
func usd(t *testing.T, text string) market.USD {
	t.Helper()
	amount, err := market.ParseUSD(text)
	if err != nil {
		t.Fatal(err)
	}
	return amount
}

// billOf returns what a cloud in another process charged.
func (s *site) billOf(endpoint string) (bill fakecloud.Bill) {
	s.t.Helper()
	response, err := http.Get(endpoint + "/_control/bill")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&bill); err != nil {
		s.t.Fatal(err)
	}
	return bill
}

// Each slot of a program on one host with four GPUs has a GPU of its own, by number.
func TestGPUsOfHosts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,g5.xlarge,4,16,1.2\nus-west-1,g5.12xlarge,48,192,6.8\n")
	prices := "timestamp,zone,instance_type,product,price\n"
	for _, month := range []string{"03", "06"} {
		prices += fmt.Sprintf("2014-%s-01T00:00:00Z,us-west-1a,g5.xlarge,Linux/UNIX,0.4\n2014-%[1]s-01T00:00:00Z,us-west-1a,g5.12xlarge,Linux/UNIX,2\n", month)
	}
	s.write("prices.csv", prices)
	s.write("shared.yaml", strings.NewReplacer("any_of: [{type: c3.2xlarge}]", "any_of: [{gpu: A10G:4}]", "reliable: {type: c3.2xlarge, count: 1}", "reliable: {count: 0}").Replace(sharedHosts))
	cloud, endpoint := s.cloud("600", "5000")
	keeper := s.start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
	s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
	job := s.programJob("resources: {count: 3, gpu: A10G:1}", "policy: capacity", "run: 'echo devices=$CUDA_VISIBLE_DEVICES && bash count.sh'", "envs: {UNTIL: 160, "+s.gate(160)+"}")
	s.start("run", "-y", "--plain", "--on", "shared-1", job).wait(0)
	var devices []string
	for rank := range 3 {
		log := string(s.read("own-1", filepath.Join(rundir.LogsDir, fmt.Sprintf("rank-%d.1.log", rank))))
		_, after, _ := strings.Cut(log, "devices=")
		device, _, _ := strings.Cut(after, "\n")
		devices = append(devices, device)
	}
	if slices.Sort(devices); !slices.Equal(devices, []string{"0", "1", "2"}) {
		t.Errorf("the ranks have GPUs %q", devices)
	}
	s.start("stop", "shared-1").wait(0)
	keeper.wait(0)
	if all := s.instances(endpoint); len(all) != 1 {
		t.Errorf("%d hosts were bought for three slots that fit on one", len(all))
	}
	cloud.signal(syscall.SIGTERM)
	cloud.wait(0)
	s.nothingRuns()
}
