package jobrun

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// clouds are the same job's blocks for each cloud.
var clouds = map[string]string{
	"local":     "cloud: local\nlocal: {prices: prices.csv, catalog: catalog.csv, start: 2020-01-08T00:00:00Z, speed: 600, boot: 1s}\n",
	"local gce": "cloud: local\nprovider: gce\nlocal: {prices: prices.csv, catalog: catalog.csv, start: 2020-01-08T00:00:00Z, speed: 60}\n",
	"ec2": "cloud: ec2\nec2: {region: r, image: ami-1, checkpoints: s3://bucket/saved, program: {url: s3://bucket/tierml, sha256: " +
		strings.Repeat("0a", 32) + "}}\n",
	"gce": "cloud: gce\ngce: {project: my-project, region: r, image: my-image, checkpoints: gs://bucket/saved, program: {url: gs://bucket/tierml, sha256: " +
		strings.Repeat("0a", 32) + "}, extra_notice: 10s}\n",
	"kubernetes": "cloud: kubernetes\nkubernetes: {region: r, image: 'registry.example.com/tierml@sha256:" + strings.Repeat("0a", 32) +
		"', service_account: pods, nodes: karpenter, checkpoints: s3://bucket/saved, catalog: catalog.csv, prices: prices.csv, cpu: 2, memory: 4GB}\n",
}

var tempoStart = time.Date(2020, 1, 8, 0, 0, 0, 0, time.UTC)

// tempoJob returns a job on a cloud, and its market: a pool whose price sometimes exceeds the bid, and a dearer one.
func tempoJob(t *testing.T, cloud, more string) (*config.Job, planner.Resolved) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"prices.csv", "catalog.csv", "ratings.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "job.yaml")
	if !strings.Contains(more, "policy:") {
		more += "policy: tierml\n"
	}
	text := "name: tempo\n" + more + clouds[cloud] + "resources: {count: 4, any_of: [{type: a}, {type: b}]}\n"
	if !strings.Contains(more, "run:") {
		text += "train: {app: mf, data: ratings.csv, clocks: 240, splits: 16, partitions: 2}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	job.Local.Start = tempoStart
	choice := planner.Resolved{Want: bidding.Want{Machines: 4}}
	for i, name := range []string{"a", "b"} {
		kind := market.InstanceType{Name: name, VCPU: 2, OnDemand: market.Dollar / 10}
		spot := market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: name, Class: market.Spot}
		var prices []market.PricePoint
		for hour := -8 * 24; hour < 10*24; hour++ {
			price := market.Dollar/30 + market.USD(i)*market.Dollar/100
			if hour%7 == 2*i {
				price = market.Dollar / 5
			}
			prices = append(prices, market.PricePoint{At: tempoStart.Add(time.Duration(hour) * time.Hour), Price: price})
		}
		choice.Pools = append(choice.Pools, bidding.Candidate{Pool: spot, Type: kind, History: market.NewHistory(prices)})
		spot.Class = market.OnDemand
		choice.OnDemand = append(choice.OnDemand, planner.OnDemandType{Pool: spot, Type: kind})
	}
	if !job.Restarts() {
		choice.Reliable = planner.Fleet{Pool: choice.OnDemand[0].Pool, Type: choice.OnDemand[0].Type, Count: 1}
	} else {
		for _, o := range choice.OnDemand {
			choice.Pools = append(choice.Pools, bidding.Candidate{Pool: o.Pool, Type: o.Type, History: market.Constant(o.Type.OnDemand)})
		}
		slices.SortFunc(choice.Pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	}
	return job, choice
}

// fourHours is a program that keeps four machines busy for four hours of market time.
type fourHours struct {
	apps.Program
	job *config.Job
}

func (fourHours) ScoreName() string { return "rmse" }

func (p fourHours) WorkPerClock() float64 {
	return 4 * 2 * 4 * 3600 * float64(p.job.Local.FlopsPerVCPU) / p.job.Local.Speed / float64(p.job.Train.Clocks)
}

// made has the inputs of a job's plan, its dry run with --hours and its real run.
type made struct {
	plan, dry sim.Config
	run       elasticity.Config
	restart   restart.Config // if the policy works by kill and restart
	input     planner.Input  // the plan's
}

func make3(t *testing.T, cloud, more string) (m made) {
	t.Helper()
	job, choice := tempoJob(t, cloud, more)
	program := fourHours{job: job}
	work := program.WorkPerClock() * float64(job.Train.Clocks)
	schema := ps.Schema{Tables: []ps.Table{{Rows: 1000, Cols: 100}}} // worth four servers
	var err error
	if m.plan, _, err = sweep.ForJob(job, choice, sweep.Content{Work: work, Schema: &schema}); err != nil {
		t.Fatal(err)
	}
	m.dry = sweep.OnEC2(m.plan, 4*time.Hour)
	if m.input, err = planner.ForLocal(job, choice, work); err != nil {
		t.Fatal(err)
	}
	save, again := m.plan.Checkpoints.Times(m.plan.Timing) // as cmd/tierml passes them on
	r := &session{name: "tempo-1", schema: schema, cfg: Config{Job: job, Choice: choice, Program: program, SaveTime: save, RestartTime: again,
		StateBytes: int64(m.plan.Checkpoints.Model)}}
	history := map[market.Pool]*market.History{}
	for _, p := range choice.Pools {
		history[p.Pool] = p.History.Until(tempoStart)
	}
	if m.run, err = r.controllerConfig(m.plan.Policy, history); err != nil {
		t.Fatal(err)
	}
	m.restart = r.restartConfig(m.run)
	return m
}

// decides keeps the parts of a controller's configuration that determine its decisions about machines. The rest is the job's content, and
// what a dry run omits: saving next to a reliable tier, and limits of the whole run (docs/dry-run.md).
func decides(c elasticity.Config) elasticity.Config {
	c.Run, c.Job, c.Checkpoints, c.AskAgain, c.Silent, c.NoHeartbeats = "", elasticity.Job{}, elasticity.Checkpoints{}, 0, false, false
	c.MaxDuration, c.Deadline, c.Budget, c.Pools = 0, time.Time{}, 0, atStart(c.Pools)
	return c
}

// atStart returns pools with their price at the start, which is all that is known of constant ones.
func atStart(pools []elasticity.Pool) []elasticity.Pool {
	out := slices.Clone(pools)
	for i, p := range out {
		if price, _ := p.History.At(tempoStart); p.Pool.Class == market.OnDemand {
			out[i].History = market.Constant(price)
		}
	}
	return out
}

// A job's plan, dry run and run decide the same: cuts, waits and boots are equal on each cloud.
func TestPlanDryRunAndRunAgree(t *testing.T) {
	for cloud := range clouds {
		t.Run(cloud, func(t *testing.T) {
			m := make3(t, cloud, "reliable: {type: a}\n")
			want := decides(m.run)
			for _, d := range differences(decides(m.plan.Controller()), want) {
				t.Errorf("plan and run: %s", d)
			}
			for _, d := range differences(m.input.Tempo, want.Settings) {
				t.Errorf("what the plan prints and run: %s", d)
			}
			real := make3(t, strings.TrimPrefix(realOf(cloud), "local "), "reliable: {type: a}\n")
			settings := real.run.Settings
			if cloud != realOf(cloud) { // a dry run with --hours replaces the fake cloud by the one that it simulates, with its usual notice
				settings.Notice = m.dry.Rules.Terms().Notice
				if settings.Notice == 0 {
					settings.Notice = 2 * time.Minute
				}
			}
			for _, d := range differences(m.dry.Settings, settings) {
				t.Errorf("dry run with --hours and run there: %s", d)
			}
			if m.plan.Settings.Startup < m.plan.Timing.Launch+m.plan.Timing.Boot+m.plan.Timing.Start+m.plan.Timing.Load {
				t.Errorf("machines take longer (%+v) than the policy is told, %s", m.plan.Timing, m.plan.Settings.Startup)
			}
			sameDecisions(t, "plan", m.plan, m.run)
			if cloud == realOf(cloud) {
				sameDecisions(t, "dry run", m.dry, m.run)
			}
		})
	}
}

// So do those of a job on tiers: which machines compute, which rounds end at a notice, and that machines stay to the end.
func TestPlanDryRunAndRunAgreeOnReplicas(t *testing.T) {
	for cloud := range clouds {
		for _, deterministic := range []bool{false, true} {
			m := make3(t, cloud, fmt.Sprintf("reliable: {type: a}\nrun: python3 train.py\ntiers: {parameters: 1M, deterministic: %t}\nprogress: {of: 4000}\n", deterministic))
			for name, cfg := range map[string]sim.Config{"plan": m.plan, "dry run": m.dry} {
				if got, want := cfg.Controller().Job, m.run.Job; got.Short != want.Short || (got.Standby == nil) != (want.Standby == nil) || want.Short == deterministic {
					t.Errorf("%s, deterministic %t: %s has short rounds %t, standbys %v, the run %t, %v", cloud, deterministic, name, got.Short, got.Standby, want.Short, want.Standby)
				}
			}
			sameDecisions(t, "plan", m.plan, m.run)
		}
	}
}

// realOf returns the cloud that a local one simulates, or the cloud itself.
func realOf(cloud string) string {
	switch cloud {
	case "local":
		return "ec2"
	case "local gce":
		return "gce"
	}
	return cloud
}

// sameDecisions sends the run's controller every event of the simulated one, and compares their actions.
func sameDecisions(t *testing.T, name string, cfg sim.Config, run elasticity.Config) {
	t.Helper()
	like := cfg.Controller()
	run.Run, run.Job, run.Checkpoints, run.AskAgain, run.NoHeartbeats = like.Run, like.Job, like.Checkpoints, like.AskAgain, like.NoHeartbeats
	run.MaxDuration, run.Deadline, run.Budget = like.MaxDuration, like.Deadline, like.Budget
	for i := range run.Pools {
		run.Pools[i].History = run.Pools[i].History.Until(tempoStart)
	}
	follow(t, name, cfg, elasticity.New(run))
}

type stepper interface {
	Step(time.Time, ...elasticity.Event) []elasticity.Action
}

// follow simulates a run and sends its events to another controller, too.
func follow(t *testing.T, name string, cfg sim.Config, other stepper) {
	t.Helper()
	cfg.Faults = []sim.Fault{{At: cfg.Settings.Market(3 * time.Second), Do: sim.Kill, Target: "random", Count: 1},
		{At: time.Hour + cfg.Settings.Startup, Do: sim.Kill, Target: "oldest", Count: 1}}
	kinds := map[journal.Kind]int{}
	cfg.Record = func(e journal.Entry) { kinds[e.Kind]++ }
	steps, differ := 0, 0
	cfg.Watch = func(now time.Time, events []elasticity.Event, actions []elasticity.Action) {
		steps++
		if got := other.Step(now, events...); !slices.EqualFunc(got, actions, func(a, b elasticity.Action) bool { return reflect.DeepEqual(a, b) }) && differ < 3 {
			differ++
			t.Errorf("%s, %s after its start: about %+v it does\n%+v\nthe run\n%+v", name, now.Sub(tempoStart), events, actions, got)
		}
	}
	if r, err := sim.Run(cfg); err != nil || !r.Finished() {
		t.Errorf("%s: %+v, %v", name, r, err)
	}
	t.Logf("%s: %d steps, %v", name, steps, kinds)
}

// differences returns the fields in which two values of a type differ.
func differences[T any](a, b T) (out []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if f, g := x.Field(i).Interface(), y.Field(i).Interface(); !reflect.DeepEqual(f, g) {
			out = append(out, fmt.Sprintf("%s %+v and %+v", x.Type().Field(i).Name, f, g))
		}
	}
	return out
}

// The same by kill and restart, where checkpoints and deadlines have times, too.
func TestPlanDryRunAndRunAgreeByRestart(t *testing.T) {
	for cloud := range clouds {
		for name, more := range map[string]string{
			"checkpoint": "policy: checkpoint\n",
			"declared":   "policy: checkpoint\ncheckpoint: {every: 20s, model: 2GB, bandwidth: 100M}\n",
			"deadline":   "policy: uniform-progress\ndeadline: 2020-01-08T09:00:00Z\n",
		} {
			t.Run(cloud+" "+name, func(t *testing.T) {
				for _, name := range []string{"plan", "dry run"} {
					m := make3(t, cloud, more)
					cfg := m.plan
					if name == "dry run" {
						cfg = m.dry
						cfg.Deadline, cfg.MaxDuration = m.plan.Deadline, m.plan.MaxDuration // a run of another length has its own
					}
					if name == "dry run" && cloud != realOf(cloud) {
						continue // it belongs to the cloud that the fake one simulates
					}
					got, want := cfg.Restarter(), m.restart
					want.Run, want.Clocks, want.AskAgain, want.Silent, want.Job.Work = got.Run, got.Clocks, got.AskAgain, got.Silent, got.Job.Work
					got.Pools, want.Pools = atStart(got.Pools), atStart(want.Pools)
					for _, d := range differences(got, want) {
						t.Errorf("%s and run: %s", name, d)
					}
					want.Silent = false
					follow(t, name, cfg, restart.New(want, restart.Driven))
				}
			})
		}
	}
}
