package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
)

const (
	// apart is the permitted difference between the costs of a job's plan, dry run and run, as a share.
	apart = 0.05
	// agreeSpeed is the initial number of market seconds per second, and agreeFLOPS a vCPU's rate at that speed.
	agreeSpeed, agreeFLOPS = 720, 3000
	// oneCell is the time limit of a run, in market time.
	oneCell = 120 * time.Hour
)

// offer is a job whose plan, dry run and run are compared.
type offer struct {
	Policy, Rules string
	Program       bool
	MaxPrice      bool   // below the on-demand price of every type
	Tier          bool   // declared
	Budget        string // "" = none
	Deadline      time.Time
	Start         time.Time
	FLOPS         int // per second and vCPU
	Speed         int
	Prices        string // folder
}

func (o offer) String() string {
	text := o.Policy + ", " + o.Rules + ", " + o.Start.Format("2006-01-02T15:04")
	if o.Program {
		text += ", program"
	}
	if o.MaxPrice {
		text += ", max_price"
	}
	if o.Tier {
		text += ", declared tier"
	}
	if o.Budget != "" {
		text += ", budget " + o.Budget
	}
	return text
}

// Clocks returns the number of clocks of each training job.
func (offer) Clocks() int { return offerClocks }

// Seconds returns how long a program runs, in wall-clock time.
func (o offer) Seconds() float64 { return programHours * 3600 / float64(o.Speed) }

// Wall formats a wall-clock duration with the same market time at every speed.
func (o offer) Wall(seconds float64) string {
	return time.Duration(seconds * float64(agreeSpeed) / float64(o.Speed) * float64(time.Second)).String()
}

// offerClocks is the number of clocks of each job.
const offerClocks = 60

// programHours is how long each program runs, in market time.
const programHours = 2.4

var offerFile = template.Must(template.New("offer").Parse(`name: cell
cloud: local
policy: {{.Policy}}
{{- if .Budget}}
budget: {{.Budget}}
{{- end}}
{{- if not .Deadline.IsZero}}
deadline: {{.Deadline.Format "2006-01-02T15:04:05Z"}}
{{- end}}
max_duration: 400h
seed: 1
resources:
{{- if .Program}}
  count: 3
{{- else}}
  vcpu: 16
{{- end}}
  any_of:
    - {type: c3.xlarge{{if .MaxPrice}}, max_price: 0.13{{end}}}
    - {type: c3.4xlarge{{if .MaxPrice}}, max_price: 0.52{{end}}}
{{- if .Program}}
run: sleep {{.Seconds}}
tasks: 8
hours: 2.4
{{- else}}
{{- if .Tier}}
reliable: {type: c3.xlarge, count: 1}
{{- end}}
train:
  app: mf
  data: ratings.csv
  holdout: 0.2
  clocks: {{.Clocks}}
  splits: 16
  partitions: 8
  params: {rank: 4, batches: 2}
{{- end}}
local:
  prices: {{.Prices}}/aws-us-west-1a-c3-2014.csv.gz
  catalog: {{.Prices}}/aws-ondemand-us-west-1-2015-04-02.csv
  rules: {{.Rules}}
  start: {{.Start.Format "2006-01-02T15:04:05Z"}}
  speed: {{.Speed}}
  notice: {{.Wall 4}}
  boot: {{.Wall 1}}
  flops_per_vcpu: {{.FLOPS}}
`))

// evenRatings returns 2,400 ratings, five by each user. Plans take splits and batches as equal: with 20 by each, the slowest machine's part of a
// clock was 5 % above the mean.
func evenRatings() string {
	random := rand.New(rand.NewPCG(3, 3))
	var out strings.Builder
	out.WriteString("user,item,rating\n")
	for user := range 480 {
		for _, item := range random.Perm(40)[:5] {
			fmt.Fprintf(&out, "%d,%d,%.2f\n", user, item, float64(user%7-3)*float64(item%5-2)/2+random.NormFloat64())
		}
	}
	return out.String()
}

var rulesOfAgree = []string{"ec2-2017", "ec2-pay-bid", "ec2-now", "gce-spot"}

// fixed returns the cells for every policy and rule book, for training and for programs. The limits alternate.
func fixed() (all []offer) {
	starts := []string{"2014-03-26T16:00", "2014-03-01T08:00", "2014-04-02T12:30", "2014-03-11T12:00", "2014-03-19T21:15"}
	add := func(program bool, policies []string) {
		for r, rules := range rulesOfAgree {
			for i, policy := range policies {
				start, _ := time.Parse("2006-01-02T15:04", starts[(len(all)+i)%len(starts)])
				o := offer{Policy: policy, Rules: rules, Program: program, Start: start, MaxPrice: (i+r)%2 == 0, Tier: (i/2+r)%2 == 1 && !program}
				if (i/4+r)%2 == 0 {
					o.Budget = "$60"
				}
				all = append(all, o)
			}
		}
	}
	add(false, config.Policies())
	add(true, append(bidding.NamesForPrograms(), config.Auto))
	for i, policy := range []string{"tierml", "cost-per-work", "checkpoint", "on-demand", "capacity", "auto", "uniform-progress", "checkpoint"} {
		start, _ := time.Parse("2006-01-02T15:04", starts[i%2])
		all = append(all, offer{Policy: policy, Rules: rulesOfAgree[i%len(rulesOfAgree)], Program: i >= 6, Tier: i%3 == 1 && i < 6, Start: start, Budget: "$1.50"})
	}
	return all
}

// drawnOffers returns cells drawn by a seed, from any start of the recording after its first weeks. A third of the
// budgets end runs.
func drawnOffers(n int, seed uint64) (all []offer) {
	random := rand.New(rand.NewPCG(seed, 31))
	first := time.Date(2014, 2, 24, 0, 0, 0, 0, time.UTC)
	for range n {
		o := offer{Rules: rulesOfAgree[random.IntN(len(rulesOfAgree))], Program: random.IntN(3) == 0, MaxPrice: random.IntN(2) == 0,
			Start: first.Add(time.Duration(random.IntN(50*24*60)) * time.Minute)}
		names := config.Policies()
		if o.Program {
			names = append(bidding.NamesForPrograms(), config.Auto)
		}
		o.Policy, o.Tier = names[random.IntN(len(names))], !o.Program && random.IntN(2) == 0
		o.Budget = []string{"", "$60", "$1.50"}[random.IntN(3)]
		all = append(all, o)
	}
	return all
}

// said is what plan, dry run or run report for a cell.
type said struct {
	usd, hours float64
	done       float64 // share of the work; for programs, 1 or unknown (0)
	kinds      string
	refused    string // why nothing is bought
}

func (s said) String() string {
	if s.refused != "" {
		return "refused: " + s.refused
	}
	return fmt.Sprintf("$%.4f, %.2f h, %.0f %% done, %s", s.usd, s.hours, 100*s.done, s.kinds)
}

// like describes the difference from another; "" = they agree.
func (s said) like(other said) string {
	switch {
	case (s.refused == "") != (other.refused == ""):
		return "one is refused"
	case s.refused != "":
		return ""
	case math.Abs(s.usd-other.usd) > apart*max(s.usd, other.usd):
		return fmt.Sprintf("cost differs by %.1f %%", 100*math.Abs(s.usd/other.usd-1))
	case s.done > 0 && other.done > 0 && math.Abs(s.done-other.done) > apart:
		return fmt.Sprintf("work done differs by %.1f %%", 100*math.Abs(s.done-other.done))
	case s.kinds != other.kinds:
		return "kinds of machines differ"
	}
	return ""
}

// agree compares the plan for a job's own start with the dry run of that start, and with the run.
func agree(f *flag.FlagSet) func(context.Context, place) error {
	cells := f.Int("cells", 1000, "at most this number of the fixed cells")
	drawn := f.Int("drawn", 20, "number of drawn cells")
	seed := f.Uint64("seed", 0, "of the drawn cells; 0: another one each time")
	parallel := f.Int("parallel", 4, "runs at the same time, most of whose time is waiting")
	speed := f.Int("speed", agreeSpeed, "market seconds in one at first, fewer on a busy computer; a quarter when a cell differs")
	only := f.String("only", "", "only cells whose description matches this regular `expression`")
	recordings := f.String("prices", "../examples/data", "folder of the recording and the catalog")
	f.String("binary", "", "the program to try; empty: one that is built")
	return func(ctx context.Context, at place) error {
		if *seed == 0 {
			*seed = uint64(time.Now().UnixNano())
		}
		all := fixed()
		all = append(all[:min(*cells, len(all))], drawnOffers(*drawn, *seed)...)
		wanted, err := regexp.Compile(*only)
		if err != nil {
			return fmt.Errorf("-only: %w", err)
		}
		all = slices.DeleteFunc(all, func(o offer) bool { return !wanted.MatchString(o.String()) })
		fmt.Fprintf(at.out, "%d cells, the last %d drawn with -seed %d\n", len(all), *drawn, *seed)
		return compareOffers(ctx, at, all, *recordings, *parallel, *speed)
	}
}

func compareOffers(ctx context.Context, at place, all []offer, recordings string, parallel, speed int) error {
	folder, err := filepath.Abs(recordings)
	if err != nil {
		return fmt.Errorf("finding the recording: %w", err)
	}
	if at.binary, err = filepath.Abs(at.binary); err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	var mu sync.Mutex
	var failed []error
	next, workers := make(chan int), sync.WaitGroup{}
	for range parallel {
		workers.Go(func() {
			for i := range next {
				o := all[i]
				o.Prices, o.Speed = folder, speed
				text, err := o.compare(ctx, filepath.Join(at.dir, fmt.Sprintf("agree%d", i)), at.binary)
				mu.Lock()
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", o, err))
				}
				fmt.Fprintf(at.out, "%s\n%s", o, text)
				mu.Unlock()
			}
		})
	}
	for i := range all {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	fmt.Fprintf(at.out, "%d of %d cells agree\n", len(all)-len(failed), len(all))
	return errors.Join(append(failed, ctx.Err())...)
}

// compare returns the results of the three. A run that differs is repeated at a quarter of the speed: a busy computer
// starts machines late.
func (o offer) compare(ctx context.Context, dir, binary string) (text string, err error) {
	for _, o.Speed = range []int{o.Speed, o.Speed / 4} {
		o.FLOPS = agreeFLOPS * o.Speed / agreeSpeed
		var all [3]said
		if all, err = o.ask(ctx, filepath.Join(dir, strconv.Itoa(o.Speed)), binary); err != nil {
			return text, err
		}
		for i, name := range []string{"plan", "dry run", "run"} {
			text += fmt.Sprintf("  %-8s %s\n", name, all[i])
		}
		differs := false
		for i, name := range []string{"dry run", "run"} {
			if how := all[0].like(all[i+1]); how != "" {
				text += fmt.Sprintf("  plan and %s: %s, at %dx\n", name, how, o.Speed)
				err = errors.Join(err, fmt.Errorf("plan and %s: %s", name, how))
				differs = true
			}
		}
		if limit, err := market.ParseUSD(strings.TrimPrefix(o.Budget, "$")); o.Budget != "" && (err != nil || all[2].usd > float64(limit)/float64(market.Dollar)) {
			return text, fmt.Errorf("the run passed its budget, %s: %s", o.Budget, all[2])
		}
		if !differs {
			return text, nil
		}
	}
	return text, err
}

// ask has a cell planned, simulated and run.
func (o offer) ask(ctx context.Context, dir, binary string) (all [3]said, err error) {
	if bidding.NeedsDeadline(policyNamed(o.Policy)) {
		o.Deadline = o.Start.Add(30 * time.Hour)
	}
	s, err := newSite(dir, binary)
	if err != nil {
		return all, err
	}
	var file strings.Builder
	if err := offerFile.Execute(&file, o); err != nil {
		return all, fmt.Errorf("writing the job: %w", err)
	}
	if err := errors.Join(s.write("cell.yaml", file.String()), s.write("ratings.csv", evenRatings())); err != nil {
		return all, err
	}
	if all[0], err = s.planned(); err != nil {
		return all, err
	}
	if all[1], err = s.simulated(o.Policy); err != nil {
		return all, err
	}
	all[2], err = s.ran(ctx, oneCell/time.Duration(o.Speed))
	return all, err
}

// policyNamed returns a policy by name, nil for auto.
func policyNamed(name string) bidding.Policy {
	p, _ := bidding.ByName(name)
	return p
}

// refusal returns the first line that a program printed when it refused a job.
func refusal(printed string, err error) (said, error) {
	why, _, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !exit.Exited() || why == "" {
		return said{}, fmt.Errorf("%w; it printed %s", err, printed)
	}
	return said{refused: why}, nil
}

func (s site) planned() (said, error) {
	printed, err := s.ask("plan", "cell.yaml", "-o", "json", "-q")
	if err != nil {
		return refusal(printed, err)
	}
	var plan journal.PlanDetails
	if err := json.Unmarshal([]byte(printed), &plan); err != nil || plan.Prediction == nil {
		return said{}, fmt.Errorf("reading the plan: %w: %s", err, printed)
	}
	usd, err := strconv.ParseFloat(plan.Prediction.USD, 64)
	return said{usd: usd, hours: plan.Prediction.Seconds / 3600, done: plan.Prediction.Done, kinds: plan.Prediction.Bought}, err
}

func (s site) simulated(policy string) (said, error) {
	printed, err := s.ask("dry-run", "cell.yaml", "--no-oracle", "-q", "--policy", policy, "-o", "csv")
	if err != nil {
		return refusal(printed, err)
	}
	rows, err := csv.NewReader(strings.NewReader(printed)).ReadAll()
	if err != nil || len(rows) != 2 {
		return said{}, fmt.Errorf("reading the dry run: %w: %s", err, printed)
	}
	row := map[string]string{}
	for i, name := range rows[0] {
		row[name] = rows[1][i]
	}
	usd, err := strconv.ParseFloat(row["cost"], 64)
	hours, worse := strconv.ParseFloat(row["runtime_hours"], 64)
	done, worst := strconv.ParseFloat(row["done"], 64)
	return said{usd: usd, hours: hours, done: done, kinds: row["bought"]}, errors.Join(err, worse, worst)
}

func (s site) ran(ctx context.Context, within time.Duration) (said, error) {
	run, err := s.start("run.log", "run", "-y", "--plain", "-q", "cell.yaml")
	if err != nil {
		return said{}, err
	}
	defer s.killAll(nil)
	select {
	case <-run.ended:
	case <-ctx.Done():
		run.end()
		return said{}, ctx.Err()
	case <-time.After(within):
		run.end()
		return said{}, fmt.Errorf("it did not end in %s: %s", within, run.printed())
	}
	folder := s.path(rundir.Root, "cell-1")
	if _, err := os.Stat(filepath.Join(folder, rundir.JournalFile)); err != nil {
		return refusal(run.printed(), run.err)
	}
	entries, _, err := journal.ReadFile(filepath.Join(folder, rundir.JournalFile))
	if err != nil {
		return said{}, err
	}
	var pools []market.Pool
	done := 0.0 // of programs, unless all are done
	for _, e := range entries {
		switch {
		case e.Kind == journal.Done && e.Outcome == "finished":
			done = 1
		case e.Kind == journal.ClockDone:
			done = float64(e.Clock) / offerClocks
		}
		if e.Kind == journal.Launch {
			p, err := market.ParsePool(e.Pool)
			if err != nil {
				return said{}, err
			}
			pools = append(pools, p)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		return said{}, fmt.Errorf("reading the report: %w; the run printed %s", err, run.printed())
	}
	var report struct {
		Run    struct{ Seconds float64 }
		Totals struct{ Total string }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return said{}, fmt.Errorf("reading the report: %w", err)
	}
	usd, err := strconv.ParseFloat(report.Totals.Total, 64)
	return said{usd: usd, hours: report.Run.Seconds / 3600, done: done, kinds: market.Kinds(pools)}, err
}
