package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/jobmanager/call"
)

// house is two job servers with jobs of every kind: one whose jobs have their own machines, and one with shared hosts.
// Their directories are on a file system that can be filled, and programs' states in a store that can be made
// unavailable.
type house struct {
	site
	out     io.Writer
	servers []*jobServer
	jobs    []houseJob
	store   *httptest.Server
	away    atomic.Bool
	began   time.Time

	pending sync.WaitGroup
	mu      sync.Mutex
	met     []met
}

// jobServer is a series of processes in one directory.
type jobServer struct {
	site
	name, address string
	args          []string
	process       *process
}

// houseJob is a job submitted to a server.
type houseJob struct {
	name   string
	server int
	train  *job // nil = a program
	ranks  int  // of a program
	tasks  int
	remote bool // its programs' states are in the store that can be unavailable, not on the disk that can be full
}

// met is a fault that had an effect, for its duration.
type met struct {
	kind, whom string
	at, until  time.Time
}

const (
	houseUntil = 1200                   // steps per program
	houseEvery = 2 * time.Second        // between saves, wall-clock
	houseStep  = 200 * time.Millisecond // a step's sleep
	houseDisk  = "64m"
)

// houseProgram counts. Its state is its progress and a sum over its steps. Outside the state it logs what it does, and
// holds a lock that no second copy can get.
const houseProgram = `me=$EFFECTS/$JOB-${TIERML_TASK:-$TIERML_RANK}
exec 9>>"$me.lock"
flock -n 9 || echo "$me: attempt $TIERML_ATTEMPT beside another copy" >>"$EFFECTS/overlaps"
at=0 sum=0
[ ! -s "$TIERML_STATE/at" ] || read -r at sum <"$TIERML_STATE/at"
echo "begin $at ${EPOCHREALTIME/./}" >>"$me"
stop=
trap 'stop=1' TERM
while [ -z "$stop" ] && [ "$at" -lt "$UNTIL" ]; do
  at=$((at + 1)) sum=$(((sum * 31 + at) % 1000003))
  echo "$at $sum" >"$TIERML_STATE/at.tmp"
  while [ -e "$TIERML_STATE/at.tmp" ]; do mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at" 9>&-; done
  echo "step $at ${EPOCHREALTIME/./}" >>"$me"
  echo "step $at of $UNTIL loss 0.5"
  sleep "$PAUSE" 9>&-
done
[ -z "$stop" ] || { echo "end $at ${EPOCHREALTIME/./}" >>"$me"; exit 143; }
echo "done $at $sum ${EPOCHREALTIME/./}" >>"$me"
`

const houseProgramJob = `name: %[1]s
cloud: local
workdir: work
run: bash count.sh
%[2]s
envs: {EFFECTS: %[3]s, JOB: %[1]s, UNTIL: %[4]d, PAUSE: %[5]g}
state: {dir: ckpt, every: %[6]s}
progress: {line: 'step (\d+) of \d+ loss ([\d.]+)', of: %[4]d}
checkpoint: {to: "%[7]s"}
hours: 20
max_duration: 10000h
orphan_after: 10s
local: {prices: prices.csv, catalog: catalog.csv, start: 2014-04-01T00:00:00Z, speed: %[8]d, notice: 5s, boot: 100ms}
`

const houseHosts = `name: shared
cloud: local
resources: {count: 2, any_of: [{type: c3.2xlarge}]}
reliable: {type: c3.2xlarge, count: 1}
policy: tierml-noswitch
hosts: {wait: 2000h}
max_duration: 10000h
orphan_after: 1m
local: {prices: prices.csv, catalog: catalog.csv, start: 2014-04-01T00:00:00Z, speed: %d, notice: 5s, boot: 100ms, flops_per_vcpu: %.0f}
`

// serverStorm is a storm over job servers, until their jobs end.
func serverStorm(f *flag.FlagSet) func(context.Context, place) error {
	faults := f.Int("faults", 60, "how many")
	length := f.Duration("duration", 6*time.Minute, "how long faults go on")
	seed := f.Uint64("seed", uint64(time.Now().UnixNano()%1e6), "seed of the faults")
	within := f.Duration("within", 15*time.Minute, "how long the jobs may take after the last fault")
	f.String("binary", "", "the program, built with -tags drill; default: it is built")
	return func(ctx context.Context, at place) (err error) {
		if os.Geteuid() != 0 {
			return errors.New("it needs root, for a file system that can be filled")
		}
		h := &house{out: at.out}
		if h.site, err = newSite(at.dir, at.binary); err != nil {
			return err
		}
		base, err := h.furnish(ctx, *length)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.leave(err != nil)) }()
		for _, s := range h.servers {
			if err := s.begin(ctx); err != nil {
				return err
			}
		}
		for _, j := range h.jobs {
			if out, err := h.servers[j.server].tell("run", "-y", "--detach", j.name+".yaml"); err != nil {
				return fmt.Errorf("submitting %s: %w: %s", j.name, err, out)
			}
		}
		h.began = time.Now()
		if err := h.play(ctx, rand.New(rand.NewPCG(*seed, 23)), *faults, *length); err != nil {
			return err
		}
		if err := h.over(ctx, *within); err != nil {
			return err
		}
		fmt.Fprintf(at.out, "seed %d: %s\n", *seed, faultsMet(h.kindsMet()))
		promises := h.promises(base)
		for _, p := range promises {
			verdict := "ok  "
			if p.err != nil {
				verdict = "LIE "
			}
			fmt.Fprintln(at.out, verdict, p.words)
		}
		return broken(promises)
	}
}

// furnish prepares the storm, and returns the result of an undisturbed run of its training job.
func (h *house) furnish(ctx context.Context, length time.Duration) (base baseline, err error) {
	tmp := h.path("tmp")
	for _, dir := range []string{"effects", "work", diskDir, "tmp"} {
		if err := os.MkdirAll(h.path(dir), 0o755); err != nil {
			return base, err
		}
	}
	if err := os.Setenv("TMPDIR", tmp); err != nil { // fake clouds' machines have their homes there
		return base, err
	}
	if err := syscall.Mount("tmpfs", h.path(diskDir), "tmpfs", 0, "size="+houseDisk); err != nil {
		return base, fmt.Errorf("making a file system: %w", err)
	}
	store := s3mem.New()
	if err := store.CreateBucket("saved"); err != nil {
		return base, err
	}
	objects := gofakes3.New(store).Server()
	h.store = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		objects.ServeHTTP(w, r)
	}))
	workloads, err := small(h.dir)
	if err != nil {
		return base, err
	}
	w := workloads[0]
	w.clocks = int(length.Seconds())
	soak := &soaking{place: place{dir: h.dir, binary: h.binary, out: h.out}, bases: map[string]baseline{}}
	if base, err = soak.base(ctx, w, modes[0], 1, 1); err != nil {
		return base, err
	}
	for i, name := range []string{"bsp", "bsp-too", "ssp", "asp", "on-hosts"} {
		m := modes[[]int{0, 0, 1, 3, 0}[i]]
		j := w.job(name, m, 1)
		j.Machines, j.Dead, j.Orphan, j.MaxPrice, j.Extra = 2, 10*time.Second, time.Minute, "0.10", "checkpoint: {every: 5s}"
		j.FlopsPerVCPU = paced(base.work, time.Second/2, 2)
		h.jobs = append(h.jobs, houseJob{name: name, server: i / 4, train: &j})
		if err := h.writeJob(j); err != nil {
			return base, err
		}
	}
	sweep := "tasks: 4\nsweep: {envs: {RATE: log 1e-4..1}, samples: 4}"
	for i, p := range []struct {
		name, more     string
		machines       string
		ranks, tasks   int
		server, seldom int
	}{
		{"single", "", "1", 1, 0, 0, 1}, {"single-too", "", "1", 1, 0, 0, 1}, {"gang", "", "2", 2, 0, 0, 1}, {"gang-too", "", "2", 2, 0, 0, 1},
		{"array", "tasks: 4", "2", 0, 4, 0, 2}, {"sweep", sweep, "2", 0, 4, 0, 2}, {"single-on-hosts", "", "1", 1, 0, 1, 1},
	} {
		to := fmt.Sprintf("s3://saved/%s?region=us-east-1&anonymous=true&endpoint=%s", p.name, h.store.URL)
		if i%2 == 1 {
			to = ""
		}
		text := fmt.Sprintf(houseProgramJob, p.name, p.more+"\nresources: {count: "+p.machines+", any_of: [{type: c3.large, max_price: 0.10}]}", h.path("effects"), houseUntil/p.seldom,
			houseStep.Seconds(), houseEvery*speed, to, speed)
		text = strings.Replace(text, "checkpoint: {to: \"\"}\n", "", 1)
		if err := h.write(p.name+".yaml", text); err != nil {
			return base, err
		}
		h.jobs = append(h.jobs, houseJob{name: p.name, server: p.server, ranks: p.ranks, tasks: p.tasks, remote: to != ""})
	}
	for name, text := range map[string]string{"work/count.sh": houseProgram, "prices.csv": prices + "2014-03-01T00:00:00Z,us-west-1a,c3.2xlarge,Linux/UNIX,0.05\n", "shared.yaml": fmt.Sprintf(houseHosts, speed, paced(base.work, time.Second/2, 2))} {
		if err := h.write(name, text); err != nil {
			return base, err
		}
	}
	for i, more := range [][]string{nil, {"--hosts", "shared.yaml", "--scheduler", "fifo"}} {
		s := &jobServer{site: h.site, name: fmt.Sprintf("%s/server-%d", diskDir, i), address: fmt.Sprintf("127.0.0.1:%d", freePort())}
		s.args = append([]string{"server", "--directory", s.name, "--listen", s.address, "--max-running", "20", "--set", "keep-free=0", "--allow", "programs", "--allow", h.store.URL}, more...)
		h.servers = append(h.servers, s)
	}
	return base, nil
}

// freePort returns a port that a server can use, also after it was killed.
func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// begin starts the server and waits until it answers. While the disk is full it may fail to start: then it is retried.
func (s *jobServer) begin(ctx context.Context) (err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * often) {
		if s.process == nil || s.process.over() {
			if s.process, err = s.start(filepath.Base(s.name)+".log", s.args...); err != nil {
				return err
			}
		}
		if response, err := http.Get("http://" + s.address + "/login"); err == nil {
			_ = response.Body.Close()
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Join(ctx.Err(), fmt.Errorf("the job server does not answer: %.2000s", s.process.printed()))
		}
	}
}

// tell runs a client's command.
func (s *jobServer) tell(args ...string) (string, error) {
	return s.ask(append(args, "--server", "http://"+s.address, "--token-file", s.path(s.name, "token"))...)
}

// list returns the server's jobs; none while it does not answer.
func (s *jobServer) list() (jobs []call.Job) {
	text, err := s.tell("ps", "-q", "-o", "json")
	if err != nil || json.Unmarshal([]byte(text), &jobs) != nil {
		return nil
	}
	return jobs
}

// folder returns a job's run directory.
func (h *house) folder(j houseJob) string {
	return h.path(h.servers[j.server].name, "runs", j.name+"-1")
}

// over waits until all jobs have ended.
func (h *house) over(ctx context.Context, within time.Duration) error {
	h.pending.Wait()
	for deadline := time.Now().Add(within); ; time.Sleep(time.Second) {
		var left []string
		for i, s := range h.servers {
			listed := s.list()
			for _, j := range h.jobs {
				if n := slices.IndexFunc(listed, func(l call.Job) bool { return l.Run == j.name+"-1" }); j.server == i && (n < 0 || !call.State(listed[n].State).Over()) {
					left = append(left, j.name)
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Join(ctx.Err(), fmt.Errorf("after %v these jobs have not ended: %v", within, left))
		}
	}
}

// leave ends everything, and keeps the servers' directories if wanted.
func (h *house) leave(keep bool) (err error) {
	h.pending.Wait()
	for _, s := range h.servers {
		if s.process != nil {
			s.process.end()
		}
	}
	for _, p := range h.belongings() {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	h.store.Close()
	if keep {
		err = os.CopyFS(h.path("disk-kept"), os.DirFS(h.path(diskDir)))
	}
	return errors.Join(err, syscall.Unmount(h.path(diskDir), syscall.MNT_DETACH))
}

// belonging is a process of the storm: of the program, or started by it.
type belonging struct {
	pid  int
	ours bool
	args []string
}

// belongings returns all except this process, ordered by process id.
func (h *house) belongings() (all []belonging) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range found {
		pid, err := strconv.Atoi(filepath.Base(dir))
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		where, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if err != nil || pid == os.Getpid() || exe != h.binary && !strings.HasPrefix(where, h.dir) {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		all = append(all, belonging{pid, exe == h.binary, strings.Split(string(bytes.TrimRight(text, "\x00")), "\x00")})
	}
	slices.SortFunc(all, func(a, b belonging) int { return a.pid - b.pid })
	return all
}
