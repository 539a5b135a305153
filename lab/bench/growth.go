package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// growthGroups measure how cost grows with the size of a model, a cluster and a market, compared with the former build;
// `make growth` runs them. Rows that the former build cannot do, or not within minutes, have no figure for it.
var growthGroups = []Group{
	{Name: "growth-servers", Title: "Memory and cuts", Pairs: 3, Open: growing(openServers)},
	{Name: "growth-machines", Title: "Plans and dry runs", Pairs: 3, Open: growing(openMachines)},
	{Name: "growth-agents", Title: "Agents with the same work", Pairs: 2, Open: growing(openAgents)},
}

// growing passes the builds to a group; they are compiled when the first group opens.
func growing(rows func(*builds) ([]Row, error)) func(context.Context, *Env) ([]Row, func(), error) {
	return func(ctx context.Context, env *Env) (list []Row, end func(), err error) {
		if env.builds == nil {
			if env.builds, err = newBuilds(ctx, env); err != nil {
				return nil, nil, err
			}
		}
		list, err = rows(env.builds)
		for i := range list {
			list[i].Against, list[i].Cold = formerCommit, true
		}
		return list, func() {}, err
	}
}

// openServers measures servers, with test/footprint.
func openServers(b *builds) (rows []Row, err error) {
	run := func(footprint string, floats, workers int, fixed bool) *shots {
		return &shots{run: func(ctx context.Context) (map[string]float64, error) {
			out, err := command(ctx, ".", footprint, fmt.Sprint("-floats=", floats), fmt.Sprint("-workers=", workers), fmt.Sprint("-deterministic=", fixed))
			if err != nil {
				return nil, err
			}
			return lastRow(out)
		}}
	}
	for _, c := range []struct {
		millions, workers int
		fixed             bool
	}{{7, 1, false}, {7, 2, false}, {7, 1, true}, {7, 2, true}, {50, 1, false}, {50, 2, false}, {50, 1, true}, {50, 2, true}, {200, 1, false}} {
		sums := "float32"
		if c.fixed {
			sums = "fixed point"
		}
		ours, theirs := run(b.now.footprint, c.millions*1e6, c.workers, c.fixed), run(b.former.footprint, c.millions*1e6, c.workers, c.fixed)
		for _, f := range []struct {
			what, column, unit string
			bar                float64
			more               bool
		}{{"owner", "owner, B/parameter", "B/parameter", 0, false}, {"backup", "backup, B/parameter", "B/parameter", 0, false},
			{"cuts", "later cuts, GB/s", "GB/s", 0, true}, {"cuts, processor time", "processor time of a cut, s/GB", "s/GB", 0, false}} {
			row := Row{What: fmt.Sprintf("%s, %d million, %s, workers: %d", f.what, c.millions, sums, c.workers), Unit: f.unit,
				Ours: ours.figure(f.column), Theirs: theirs.figure(f.column), Exact: c.millions > 7}
			if c.millions > 7 { // beyond a frame's limit it does not train
				row.Theirs = nil
			}
			if !c.fixed && c.workers == 1 {
				row.Curve, row.At = f.what, float64(c.millions)*1e6
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// openAgents measures whole clusters on this host, with lab/trials.
func openAgents(b *builds) (rows []Row, err error) {
	run := func(tierml string, n int) *shots {
		return &shots{run: func(ctx context.Context) (map[string]float64, error) {
			out, err := command(ctx, ".", b.trials, "agents", "-binary", tierml, "-machines", fmt.Sprint(n))
			if err != nil {
				return nil, err
			}
			return lastRow(out)
		}}
	}
	sizes := []int{16, 32, 64}
	ours, theirs := map[int]*shots{}, map[int]*shots{}
	for _, n := range sizes {
		ours[n], theirs[n] = run(b.now.tierml, n), run(b.former.tierml, n)
	}
	for _, f := range []struct{ what, column, unit string }{{"clocks", "clocks/s", "clocks/s"}, {"processor time of a clock", "processor ms/clock", "ms"},
		{"requests of a clock", "requests/clock", "requests"}} {
		var curve growthCurve
		for _, n := range sizes {
			curve.add(n, Row{What: fmt.Sprintf("%s, agents: %d", f.what, n), Unit: f.unit, Curve: f.what,
				Ours: ours[n].figure(f.column), Theirs: theirs[n].figure(f.column)})
		}
		rows = append(rows, curve.withExponents("agents")...)
	}
	return rows, nil
}

// openMachines measures plans and dry runs of jobs with many machines.
func openMachines(b *builds) (rows []Row, err error) {
	job := func(n int) (string, error) { return manyMachines(filepath.Dir(b.trials), n) }
	dryRun := []string{"dry-run", "--hours", "8", "--no-oracle", "-o", "csv"}
	var plans, runs growthCurve
	for _, n := range []int{256, 1000, 4000, 10_000} {
		file, err := job(n)
		if err != nil {
			return nil, err
		}
		runs.add(n, b.both(fmt.Sprintf("dry run of 10 starts, machines: %d", n), "dry run", n, append(dryRun, "--policy", "tierml", "--starts", "10", file)))
	}
	for _, n := range []int{256, 1000, 4000} {
		file, err := job(n)
		if err != nil {
			return nil, err
		}
		plans.add(n, b.both(fmt.Sprintf("plan, machines: %d", n), "plan", n, []string{"plan", file}))
	}
	rows = append(runs.withExponents("machines"), plans.withExponents("machines")...)
	file, err := job(64)
	if err != nil {
		return nil, err
	}
	restless := b.both("restless market, cost-per-work, 100 starts", "", 0, append(dryRun, "--policy", "cost-per-work", "--starts", "100",
		"--prices", restlessTrace, "--catalog", restlessCatalog, "--types", "g2.8xlarge,m4.10xlarge", "--zones", "us-east-1b", "--reliable", "m4.10xlarge:1", file))
	if _, err := os.Stat(restlessTrace); err != nil {
		restless.Skip = "there is no " + restlessTrace
	}
	return append(rows, restless), nil
}

const (
	restlessTrace   = "../shared/data/spot/aws-us-east-1-2016-02-to-04.csv.gz"
	restlessCatalog = "../shared/data/catalog/aws-ondemand-linux-2016-02-27.csv.gz"
)

// both returns a row for a command of both builds. The former one takes minutes for thousands of machines.
func (b *builds) both(what, curve string, n int, args []string) Row {
	measure := func(tierml string) Measure {
		return func(ctx context.Context) (float64, error) { return processorSeconds(ctx, tierml, args...) }
	}
	row := Row{What: what, Unit: "s of processor", Curve: curve, Ours: measure(b.now.tierml), Theirs: measure(b.former.tierml), Exact: n > 1000}
	if n > 1000 {
		row.Theirs = nil
	}
	return row
}

// manyMachines writes the demo's job for n machines, in words that both builds read.
func manyMachines(dir string, n int) (path string, err error) {
	text, err := os.ReadFile("../examples/demo.yaml")
	if err != nil {
		return "", fmt.Errorf("not run from lab: %w", err)
	}
	data, err := filepath.Abs("../examples/data")
	if err != nil {
		return "", err
	}
	job, _, _ := strings.Cut(string(text), "  script:")
	splits := 4 * n
	if n > 1000 {
		splits = n // a plan reads the data, which has 5,000 users
	}
	for old, new := range map[string]string{"vcpu: 64": fmt.Sprint("count: ", n), "reliable: auto": "reliable: {type: c3.4xlarge}", "splits: 64": fmt.Sprint("splits: ", splits), "budget: $60": "", " data/": " " + data + "/"} {
		if !strings.Contains(job, old) {
			return "", fmt.Errorf("examples/demo.yaml has no %q", old)
		}
		job = strings.ReplaceAll(job, old, new)
	}
	path = filepath.Join(dir, fmt.Sprintf("machines-%d.yaml", n))
	return path, os.WriteFile(path, []byte(job), 0o600)
}

// growthCurve is a series of rows of growing size.
type growthCurve struct {
	sizes        []float64
	rows         []Row
	ours, theirs []float64 // the measurements, summed
	counts       [2][]int
}

func (c *growthCurve) add(size int, row Row) {
	i := len(c.rows)
	row.At = float64(size)
	c.sizes, c.ours, c.theirs = append(c.sizes, row.At), append(c.ours, 0), append(c.theirs, 0)
	c.counts[0], c.counts[1] = append(c.counts[0], 0), append(c.counts[1], 0)
	keep := func(measure Measure, side int) Measure {
		if measure == nil {
			return nil
		}
		return func(ctx context.Context) (float64, error) {
			x, err := measure(ctx)
			if math.IsNaN(x) {
				return x, err
			}
			[2][]float64{c.ours, c.theirs}[side][i] += x
			c.counts[side][i]++
			return x, err
		}
	}
	row.Ours, row.Theirs = keep(row.Ours, 0), keep(row.Theirs, 1)
	c.rows = append(c.rows, row)
}

// withExponents returns the rows, and one with their exponents: the least-squares slope through the logarithms of sizes
// and means.
func (c *growthCurve) withExponents(of string) []Row {
	slope := func(sums []float64, counts []int) Measure {
		return func(context.Context) (float64, error) {
			var n, sx, sy, sxx, sxy float64
			for i, count := range counts {
				if count > 0 {
					x, y := math.Log(c.sizes[i]), math.Log(sums[i]/float64(count))
					n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
				}
			}
			if n < 2 {
				return math.NaN(), nil
			}
			return (n*sxy - sx*sy) / (n*sxx - sx*sx), nil
		}
	}
	what, _, _ := strings.Cut(c.rows[0].What, ", "+of)
	return append(c.rows, Row{What: "exponent of " + what, Unit: "power of " + of, Exact: true, Ours: slope(c.ours, c.counts[0]), Theirs: slope(c.theirs, c.counts[1])})
}
