// Command evictions prints a job's cost with each policy for increasing eviction rates: `make evictions`. It runs
// `tierml dry-run` for each market, rate and length, pairs the starts, and sums up. It decides nothing.
package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "evictions:", err)
		os.Exit(1)
	}
}

// study is the set of comparisons.
type study struct {
	tierml, job, trace, catalog, rules string
	markets, policies, rates, hours    []string
	availability                       string
	vcpu, starts                       int
	seed                               uint64
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	var s study
	var markets, policies, rates, hours string
	f := flag.NewFlagSet("evictions", flag.ContinueOnError)
	f.StringVar(&s.tierml, "tierml", "bin/tierml", "the `program`")
	f.StringVar(&s.job, "job", "../examples/demo.yaml", "job `file`: its own machines and prices are not used")
	f.StringVar(&s.trace, "trace", "", "price history `files`, separated by commas")
	f.StringVar(&s.catalog, "catalog", "", "`file` of machine types with on-demand prices")
	f.StringVar(&s.rules, "rules", "ec2-now", "rule `book`")
	f.StringVar(&markets, "markets", "", "markets as `ZONE,ZONE:TYPE,TYPE`, separated by blanks")
	f.StringVar(&policies, "policies", "tierml,tierml-noswitch,cost-per-work,capacity,checkpoint,deadline,uniform-progress,on-demand,clairvoyant", "policies, separated by commas")
	f.StringVar(&rates, "rates", "none,5%,10%,20%,measured", "values of --evictions, separated by commas; `measured` = the recordings of -availability")
	f.StringVar(&s.availability, "availability", "", "recordings of availability, separated by commas")
	f.StringVar(&hours, "hours", "8,20", "`lengths` of work, separated by commas")
	f.IntVar(&s.vcpu, "vcpu", 256, "of the fleet")
	f.IntVar(&s.starts, "starts", 100, "of each market")
	f.Uint64Var(&s.seed, "seed", 1, "of starts, evictions and intervals")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.markets, s.policies, s.rates, s.hours = strings.Fields(markets), strings.Split(policies, ","), strings.Split(rates, ","), strings.Split(hours, ",")
	for _, length := range s.hours {
		t := table{policies: s.policies, rates: s.rates, markets: len(s.markets)}
		for _, rate := range s.rates {
			var all []market
			for _, m := range s.markets {
				one, err := s.ask(ctx, m, rate, length)
				if err != nil {
					return fmt.Errorf("%s, evictions %s, %s hours: %w", m, rate, length, err)
				}
				all = append(all, one)
				fmt.Fprintf(errOut, "%s, evictions %s, %s h:%s\n", m, rate, length, one.brief(s.policies))
			}
			t.columns = append(t.columns, all)
		}
		if err := t.write(out, length, s.seed); err != nil {
			return err
		}
	}
	return nil
}

// result is one simulated run.
type result struct {
	cost, hours, evictions float64 // cost as a share of on demand
	finished               bool
}

// market has the runs in one market: by policy, then start.
type market map[string]map[string]result

// ask runs the dry run.
func (s *study) ask(ctx context.Context, at, rate, length string) (market, error) {
	zones, types, ok := strings.Cut(at, ":")
	if !ok {
		return nil, fmt.Errorf("write ZONE,ZONE:TYPE,TYPE")
	}
	if rate == "measured" {
		rate = s.availability
	}
	cmd := exec.CommandContext(ctx, s.tierml, "dry-run", s.job, "--prices", s.trace, "--catalog", s.catalog, "--rules", s.rules, "--zones", zones,
		"--types", types, "--vcpu", strconv.Itoa(s.vcpu), "--policy", strings.Join(s.policies, ","), "--evictions", rate, "--hours", length,
		"--starts", strconv.Itoa(s.starts), "--set", "seed="+strconv.FormatUint(s.seed, 10), "--no-oracle", "-o", "csv")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errs)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) < 2 {
		return nil, fmt.Errorf("no rows (%v): %s", err, &errs)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	m := market{}
	for _, row := range rows[1:] {
		number := func(name string) float64 {
			x, failed := strconv.ParseFloat(row[column[name]], 64)
			if failed != nil && err == nil {
				err = failed
			}
			return x
		}
		policy := row[column["policy"]]
		if m[policy] == nil {
			m[policy] = map[string]result{}
		}
		m[policy][row[column["start"]]] = result{cost: number("cost") / number("ondemand_cost"), hours: number("runtime_hours"),
			evictions: number("evictions"), finished: row[column["outcome"]] == "finished"}
	}
	return m, err
}

// shared returns the starts from which all policies finished, ignoring policies that finished from fewer than half.
func (m market) shared() (starts []string) {
	counts, policies := map[string]int{}, 0
	for _, runs := range m {
		if !compared(runs) {
			continue
		}
		policies++
		for start, r := range runs {
			if r.finished {
				counts[start]++
			}
		}
	}
	for start, n := range counts {
		if n == policies {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return starts
}

func compared(runs map[string]result) bool {
	finished := 0
	for _, r := range runs {
		if r.finished {
			finished++
		}
	}
	return 2*finished >= len(runs) && finished > 0
}

// mean averages over some starts.
func (m market) mean(policy string, starts []string, of func(result) float64) (sum float64) {
	for _, start := range starts {
		sum += of(m[policy][start])
	}
	return sum / float64(len(starts))
}

func cost(r result) float64 { return r.cost }

func (m market) brief(policies []string) (text string) {
	starts := m.shared()
	for _, p := range policies {
		text += fmt.Sprintf(" %s %.4f", p, m.mean(p, starts, cost))
	}
	return text
}

// table is the table of one length.
type table struct {
	policies, rates []string
	markets         int
	columns         [][]market // by rate, then market
}

func (t *table) write(out io.Writer, length string, seed uint64) error {
	var b strings.Builder
	starts := 0
	for _, m := range t.columns[0] {
		starts += len(m.shared())
	}
	fmt.Fprintf(&b, "\n%s hours: mean cost in parts of on demand over %d markets, %d starts\n\n| policy |", length, t.markets, starts)
	for _, rate := range t.rates {
		b.WriteString(" " + rate + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(t.rates)) + "\n")
	for _, p := range t.policies {
		b.WriteString("| " + p + " |")
		for _, all := range t.columns {
			b.WriteString(" " + figure(all, p) + " |")
		}
		b.WriteString("\n")
	}
	for _, p := range t.policies {
		if p == "checkpoint" || p == "clairvoyant" || p == "on-demand" {
			continue
		}
		fmt.Fprintf(&b, "| %s, less checkpoint |", p)
		for _, all := range t.columns {
			b.WriteString(" " + difference(all, p, "checkpoint", seed) + " |")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// figure returns a policy's mean over markets: cost, hours and machines evicted per run.
func figure(all []market, policy string) string {
	var costs, hours, evictions float64
	for _, m := range all {
		if !compared(m[policy]) {
			return "does not finish"
		}
		starts := m.shared()
		costs += m.mean(policy, starts, cost) / float64(len(all))
		hours += m.mean(policy, starts, func(r result) float64 { return r.hours }) / float64(len(all))
		evictions += m.mean(policy, starts, func(r result) float64 { return r.evictions }) / float64(len(all))
	}
	if policy == "clairvoyant" {
		return fmt.Sprintf("%.4f", costs)
	}
	return fmt.Sprintf("%.4f (%.2f h, %.2f)", costs, hours, evictions)
}

// difference returns the share by which one policy costs more than another over all markets, with its 95 % interval by
// a bootstrap over each market's starts, and the number of markets in which it is cheaper.
func difference(all []market, policy, than string, seed uint64) string {
	const resamples = 1000
	cheaper := 0
	var starts [][]string
	for _, m := range all {
		if !compared(m[policy]) || !compared(m[than]) {
			return "-"
		}
		one := m.shared()
		starts = append(starts, one)
		if m.mean(policy, one, cost) < m.mean(than, one, cost) {
			cheaper++
		}
	}
	dearer := func(draw func(n, of int) int) float64 {
		a, b := 0.0, 0.0
		for i, m := range all {
			for n := range starts[i] {
				start := starts[i][draw(n, len(starts[i]))]
				a += m[policy][start].cost / float64(len(starts[i]))
				b += m[than][start].cost / float64(len(starts[i]))
			}
		}
		return a/b - 1
	}
	mean := dearer(func(n, _ int) int { return n })
	random := rand.New(rand.NewPCG(seed, 6))
	draws := make([]float64, resamples)
	for i := range draws {
		draws[i] = dearer(func(_, of int) int { return random.IntN(of) })
	}
	slices.Sort(draws)
	return fmt.Sprintf("%+.2f %% (%+.2f to %+.2f; cheaper in %d of %d)", 100*mean, 100*draws[resamples/40], 100*draws[resamples-1-resamples/40],
		cheaper, len(all))
}
