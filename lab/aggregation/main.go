// Program aggregation replays arrivals from two clusters' traces through the real book of shared hosts: how many fewer
// servers serve the jobs than they request. It reproduces section 5.2.3 and figure 11 of Parameter Service (AutoPS).
//
// The traces have arrivals and GPUs. The rest is assumed, as stated in papers/schedulers.md: run times are those of
// other jobs with as many GPUs; a job requests a server per four GPUs; and its model is one of four, whose iteration
// time and use of a server are read from figures 3 and 4. A server is a machine of 4 vCPUs; hosts are the size of
// several.
package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/hoststest"
	"github.com/tierml/tierml/sim/jobs"
	"github.com/tierml/tierml/tiers"
)

const (
	cores     = 4    // per server
	memory    = 8000 // MiB per server
	serverUSD = 0.17 // per hour: c5.xlarge on demand in us-east-1
)

// model is what a job of the replay trains.
type model struct {
	iteration float64 // seconds
	busy      float64 // share of a server that its aggregation takes
	tasks     int
}

var models = []model{{0.12, 0.45, 16}, {0.35, 0.25, 15}, {0.60, 0.22, 24}, {0.55, 0.16, 24}}

// submitted is a job of the trace.
type submitted struct {
	id       string
	at, runs float64 // seconds
	servers  int
	of       tiers.Profile
}

// draw invents what a trace does not have.
func draw(r *rand.Rand, id string, at, runs float64, gpus int, use float64) submitted {
	m := models[r.IntN(len(models))]
	seconds := m.iteration * (0.8 + 0.45*r.Float64())
	job := submitted{id: id, at: at, runs: runs, servers: max(gpus/4, 1), of: tiers.Profile{Clock: time.Duration(seconds * 1e9)}}
	busy := float64(job.servers) * m.busy * use
	shares := make([]float64, m.tasks)
	for i := range shares { // tensors' sizes are Pareto-distributed
		shares[i] = math.Pow(1-r.Float64(), -1/1.2)
	}
	for _, s := range most(shares, 1/busy) {
		job.of.Serving = append(job.of.Serving, time.Duration(cores*busy*seconds*s*1e9))
	}
	return job
}

// most scales shares so that they add up to 1 and none exceeds a limit: a job with a tensor larger than a server could
// not keep its iteration time.
func most(shares []float64, limit float64) []float64 {
	for range len(shares) {
		sum := 0.0
		for _, s := range shares {
			sum += s
		}
		for i, s := range shares {
			shares[i] = min(s/sum, limit)
		}
	}
	return shares
}

// result is the result of a replay.
type result struct {
	jobs               int
	asked, had, needed float64 // server seconds: requested servers, hosts, and computation
	whole              float64 // needed, rounded up to whole hosts
	above, within      float64 // seconds with more servers than requested, and total
	lossy              float64 // share of jobs' time in which a job loses more than the limit
	moved, parts, peak int
}

func (f result) saved() float64 { return 1 - f.had/f.asked }
func (f result) bound() float64 { return 1 - f.needed/f.asked }
func (f result) ceil() float64  { return 1 - f.whole/f.asked }

// replay runs jobs' arrivals and ends. In between, the book runs until it makes no more decisions.
func replay(all []submitted, size int) (f result, err error) {
	w := hoststest.New(hosts.Size{VCPU: size * cores, MemoryMiB: int64(size) * memory}, map[string]hosts.Size{"server": {VCPU: cores, MemoryMiB: 500}})
	type event struct {
		at     float64
		job    int
		leaves bool
	}
	var events []event
	for i, j := range all {
		events = append(events, event{j.at, i, false}, event{j.at + j.runs, i, true})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job)) })
	asked, now, quiet := 0, 0.0, 0
	account := func(to float64) {
		dt, had, busy := to-now, float64(w.Hosts()*size), w.Load()/cores
		f.asked, f.had, f.needed = f.asked+float64(asked)*dt, f.had+had*dt, f.needed+busy*dt
		f.whole += float64(size) * math.Ceil(busy/float64(size)-1e-9) * dt
		if asked > 0 {
			f.within += dt
			if had > float64(asked) {
				f.above += dt
			}
		}
		now = to
	}
	for _, e := range events {
		for quiet < rest && now+60 <= e.at {
			account(now + 60)
			w.Now = time.Unix(0, 0).UTC().Add(time.Duration((now - 60) * 1e9))
			news, err := w.Pass(time.Minute)
			if err != nil {
				return f, err
			}
			if quiet++; news {
				quiet = 0
			}
		}
		account(e.at)
		w.Now, quiet = time.Unix(0, 0).UTC().Add(time.Duration(e.at*1e9)), 0
		j := all[e.job]
		if e.leaves {
			asked -= j.servers
			w.Leave(j.id)
			continue
		}
		asked += j.servers
		if err := w.Arrive(&hoststest.Job{ID: j.id, Type: "server", Profile: j.of}); err != nil {
			return f, err
		}
		f.jobs, f.parts, f.peak = f.jobs+1, f.parts+len(j.of.Serving), max(f.peak, w.Hosts())
	}
	f.moved, f.lossy = w.Moves, float64(w.Lost)/float64(w.Within)
	return f, nil
}

// rest is the number of minutes without a decision after which the book is considered settled until a job comes or
// goes.
const rest = 8

func main() {
	dir := flag.String("data", "", "folder of the traces")
	size := flag.Int("size", 4, "servers that a host is as large as")
	only := flag.String("only", "", "one virtual cluster, or alibaba")
	flag.Parse()
	if err := run(*dir, *size, *only); err != nil {
		fmt.Fprintln(os.Stderr, "aggregation:", err)
		os.Exit(1)
	}
}

func run(dir string, size int, only string) error {
	names, philly, err := readPhilly(dir)
	if err != nil {
		return err
	}
	more, err := alibaba(filepath.Join(dir, "alibaba-2023", "openb_pod_list_default.csv.gz"))
	if err != nil {
		return err
	}
	fmt.Println("| cluster | jobs | most hosts | saved | bound | of the bound | whole hosts could have | more servers than requested | above the limit | partitions moved, of those that arrived | saved in dollars |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, name := range append(names, "alibaba") {
		of := more
		if name != "alibaba" {
			of = philly(1, 1, name)
		}
		if len(of) == 0 || only != "" && only != name {
			continue
		}
		f, err := replay(of, size)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("| %s | %d | %d | %.1f %% | %.1f %% | %.3f | %.3f | %.2f %% | %.2f %% | %d of %d | %.0f |\n", name, f.jobs, f.peak, 100*f.saved(), 100*f.bound(), f.saved()/f.bound(),
			f.ceil()/f.bound(), 100*f.above/f.within, 100*f.lossy, f.moved, f.parts, serverUSD*(f.asked-f.had)/3600)
	}
	return nil
}

// readPhilly reads the arrivals of Philly's virtual clusters; jobs returns a cluster's jobs for the replay, with the
// rest drawn.
func readPhilly(dir string) (names []string, jobs func(seed uint64, use float64, name string) []submitted, err error) {
	times, err1 := rows(filepath.Join(dir, "philly-runtime-gpus-over-1h.csv.gz"))
	arrivals, err2 := rows(filepath.Join(dir, "philly-arrivals-by-vc.csv.gz"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	number := func(s string) float64 {
		x, bad := strconv.ParseFloat(s, 64)
		err = errors.Join(err, bad)
		return x
	}
	runs := map[int][]float64{}
	for _, row := range times {
		gpus := int(number(row[1]))
		runs[gpus] = append(runs[gpus], number(row[0]))
	}
	type arrival struct {
		vc   string
		at   float64
		gpus int
	}
	var all []arrival
	for _, row := range arrivals {
		all = append(all, arrival{row[0], number(row[1]), int(number(row[2]))})
		names = append(names, row[0])
	}
	slices.Sort(names)
	return slices.Compact(names), func(seed uint64, use float64, name string) (out []submitted) {
		r := rand.New(rand.NewPCG(seed, 11))
		for i, a := range all {
			if a.gpus < 2 {
				continue // trains on one GPU, without servers
			}
			like := runs[a.gpus]
			if like == nil {
				like = runs[8]
			}
			j := draw(r, fmt.Sprint(i), a.at, like[r.IntN(len(like))], a.gpus, use)
			if name == a.vc {
				out = append(out, j)
			}
		}
		return out
	}, err
}

// alibaba returns the tasks with at least two GPUs of Alibaba's cluster, with their own run times.
func alibaba(path string) (out []submitted, err error) {
	text, err := unpacked(path)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	all, err := jobs.ReadArrivals(text)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 11))
	for i, a := range all {
		if a.Units >= 2 && a.Runs > 0 {
			out = append(out, draw(r, fmt.Sprint(i), a.At, a.Runs, a.Units, 1))
		}
	}
	return out, nil
}

// unpacked opens a compressed file.
func unpacked(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{text, f}, nil
}

// rows reads a table without its header.
func rows(path string) ([][]string, error) {
	text, err := unpacked(path)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	all, err := csv.NewReader(text).ReadAll()
	if err != nil || len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all[1:], nil
}
