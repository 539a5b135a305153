package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

// playTunnel makes this test binary act as a tunnel command: it connects two ports of this host until its input is closed.
func playTunnel(local, port string) int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:"+local)
	if err != nil {
		return 1
	}
	for {
		near, err := listener.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer near.Close()
			far, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				return
			}
			defer far.Close()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			_, _ = io.Copy(near, far)
		}()
	}
}

// ec2Job is a job as terraform/aws's settings make it, with placeholders.
const ec2Job = `name: small
cloud: ec2
policy: tierml
resources: {count: 3, any_of: [{type: c3.large, max_price: 0.10}], zones: [us-west-1a]}
reliable: {type: c3.large}
heartbeat: 500ms
dead_after: 60s
seed: 5
train:
  app: mf
  data: ratings.csv
  holdout: 0.2
  clocks: 120
  splits: 12
  partitions: 8
  evaluate_every: 5
  params: {rank: 4, batches: 4}
stages: {two_above: 1, three_above: 3}
ec2:
  region: us-west-1
  cluster: prod
  owner: ann
  image: ami-12345678
  program: {url: "%s/tierml", sha256: %s}
  checkpoints: "%s"
  catalog: catalog.csv
  listen: 127.0.0.1:0
  endpoint: %s
  controller:
    tunnel: %s play-tunnel {instance} {local} {port}
    port: %d
    type: c3.large
    role: prod-controller
`

// guest does what a machine with an image of Amazon's does, on a machine of the fake EC2: it runs its user data as a script.
const guest = `#!/bin/bash
export PATH="$PWD/tools:$PATH" TIERML_HOME="$PWD/machines/$$" TIERML_POWER_OFF=true
mkdir -p "$TIERML_HOME"
at=$AWS_EC2_METADATA_SERVICE_ENDPOINT/latest
token=$(curl --fail --silent --show-error --request PUT --header 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$at/api/token") &&
curl --fail --silent --show-error --header "X-aws-ec2-metadata-token: $token" --output "$TIERML_HOME/user-data" "$at/user-data" || exit 1
exec bash "$TIERML_HOME/user-data"
`

// amazon starts a fake EC2 with such machines.
func (s *site) amazon(more ...string) (p *process, endpoint string) {
	s.t.Helper()
	s.noRules()
	s.write("guest", guest)
	return s.cloudOf(append([]string{"--prices", "now.csv", "--catalog", "catalog.csv", "--start", time.Now().UTC().Format(time.RFC3339), "--speed", "1",
		"--notice", "2m", "--set", "boot=100ms", "--set", "flops-per-vcpu=20000", "--set", "log-dir=cloudlogs", "--instance-command", "bash guest"}, more...)...)
}

// noRules keeps machines from changing rules of this computer.
func (s *site) noRules() {
	s.t.Helper()
	if err := errors.Join(os.MkdirAll(s.path("tools"), 0o755), os.WriteFile(s.path("tools", "ip"), []byte("#!/bin/sh\n"), 0o755)); err != nil {
		s.t.Fatal(err)
	}
}

// killBelow ends processes of the binary that a failed test left in its directory.
func (s *site) killBelow() {
	for _, pid := range s.processesBelow() {
		s.t.Errorf("process %d is left over; killing it", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// account is an account of a cloud whose machines run their first script: it has a bucket, and the program to download.
type account struct {
	program, sum string // its address and its SHA-256
	text         []byte // of the program
	store        *s3mem.Backend
	bucket       string // address
}

// newAccount makes one, with a site and a market. It skips the test if first scripts cannot run here.
func newAccount(t *testing.T) (*site, *account) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, and machines' first script runs it: apt-get install bash coreutils curl sed", tool)
		}
	}
	t.Parallel()
	s := newSite(t)
	t.Cleanup(s.killBelow)
	s.write("now.csv", "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n"+
		"2026-01-01T00:00:00Z,us-west-1a,m3.large,Linux/UNIX,0.03\n")
	s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\nus-west-1,m3.large,2,7.5,0.154\n")
	return s, s.account()
}

// account makes a bucket and a place to download the program from.
func (s *site) account() *account {
	t := s.t
	t.Helper()
	program, sum := wrappedProgram(t)
	downloads := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }))
	t.Cleanup(downloads.Close)
	store := s3mem.New()
	if err := store.CreateBucket("saved"); err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(gofakes3.New(store).Server())
	t.Cleanup(bucket.Close)
	return &account{downloads.URL, sum, program, store, bucket.URL}
}

// wrappedProgram returns what machines download as the program, with its SHA-256: a script that runs the built one.
func wrappedProgram(t *testing.T) (text []byte, sum string) {
	text = []byte("#!/bin/bash\nexec " + builtBinary(t) + " \"$@\"\n")
	hash := sha256.Sum256(text)
	return text, hex.EncodeToString(hash[:])
}

// at returns the place of an object in the bucket.
func (a *account) at(key string) string {
	return "s3://saved/" + key + "?region=us-east-1&anonymous=true&endpoint=" + a.bucket
}

// From a laptop with a job file: a job server is started on a machine of EC2, the job put on it, and the laptop closed. The job continues;
// the next command finds it by itself, and the model is that of a single process. The job server does not count as a leak, does not end
// while a job continues, and leaves nothing behind.
func TestLaptopIsClosed(t *testing.T) {
	if raced.Detector {
		t.Skip("processes of the race detector's program are too slow, and TestComputeEngine has the same machines raced")
	}
	s, a := newAccount(t)
	cloud, endpoint := s.amazon()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.write("job.yaml", fmt.Sprintf(ec2Job, a.program, a.sum, a.at("runs"), endpoint, self, freePort(t)))
	laptop := func(args ...string) *process {
		cmd := exec.Command(builtBinary(t), args...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+s.path("laptop"))
		return s.startCommand(cmd)
	}
	says := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in\n%s", w, text)
			}
		}
	}

	says(laptop("run", "-y", "job.yaml").wait(cli.ExitUsage), "cluster prod in us-west-1 has no job server", "tierml server start job.yaml", "tierml run --here job.yaml")
	says(laptop("server", "start", "-y", "job.yaml").wait(0), "Starts an on-demand c3.large in us-west-1a of EC2", "$0.12 an hour", "The job server is ready.")
	says(laptop("server", "start", "-y", "job.yaml").wait(cli.ExitUsage), "cluster prod has a job server: i-")
	s.write("bare.yaml", "run: echo hello\ncloud: ec2\n")
	says(laptop("plan", "bare.yaml").wait(0), "ec2: the installation of", filepath.Join("controllers", "ec2-us-west-1-prod", "installation.yaml"))
	tokenFile := s.path("laptop", "tierml", "controllers", "ec2-us-west-1-prod", "token")
	if info, err := os.Stat(tokenFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	secret, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(secret))

	run := laptop("run", "-y", "job.yaml")
	homes := func() (found []string) {
		found, _ = filepath.Glob(s.path("machines", "*", rundir.Root, "small-1", rundir.JournalFile))
		return found
	}
	clock := func() (n int64) {
		for _, journalFile := range homes() {
			entries, _, _ := journal.ReadFile(journalFile)
			for _, e := range entries {
				n = max(n, e.Clock)
			}
		}
		return n
	}
	s.poll("clock 5", func() bool {
		select {
		case err := <-run.ended:
			t.Fatalf("it has ended: %v\n%s", err, run.out.String())
		default:
		}
		return clock() >= 5
	})
	run.signal(syscall.SIGKILL) // the lid is shut
	run.wait(-1)
	at := clock()
	says(laptop("ps").wait(0), "small-1", "running")
	says(laptop("server", "stop", "-y", "job.yaml").wait(cli.ExitUsage), "small-1: not finished yet", "tierml stop small-1")
	says(laptop("down", "-y", "--expired", "job.yaml").wait(0), "is the cluster's job server and left alone", "0 of")
	watching := laptop("top", "small")
	s.poll("the last clock", func() bool { return clock() >= 120 })
	ended := func() (done bool) {
		for _, journalFile := range homes() {
			entries, _, _ := journal.ReadFile(journalFile)
			done = done || has(journal.Done, 1)(entries)
		}
		return done
	}
	s.poll("the end", ended) // the bill is made once the minute's prices are known
	says(watching.wait(0), "in us-west-1 ...", "finished at clock 120")
	if clock() <= at {
		t.Errorf("it stood still at clock %d", at)
	}
	laptop("fetch", "small", "--into", "fetched").wait(0)
	if info, err := os.Stat(s.path("fetched", "small-1")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("what was fetched is others' to read: %v, %v", info, err)
	}
	model, err := os.ReadFile(s.path("fetched", "small-1", rundir.ModelFile))
	if err != nil || !bytes.Equal(model, s.modelOfOneProcess(s.path("job.yaml"))) {
		t.Errorf("the model is not that of a single process: %v", err)
	}
	says(laptop("report", "small").wait(0), "small", "finished")

	says(laptop("leaks", "job.yaml").wait(0), "No machine of cluster prod in us-west-1 is left.", "is the cluster's job server and left alone")
	says(laptop("server", "stop", "-y", "job.yaml").wait(0), "of 1 runs, which `tierml fetch` copies", "It has ended.")
	says(laptop("server", "stop", "-y", "job.yaml").wait(0), "has no job server")
	s.noMachineLeft(endpoint)
	scripts, _ := filepath.Glob(s.path("machines", "*", "user-data"))
	if len(scripts) < 5 {
		t.Errorf("%d machines had user data", len(scripts))
	}
	for _, script := range scripts {
		if text, err := os.ReadFile(script); err != nil || strings.Contains(string(text), token) {
			t.Errorf("the token is in %s, or it cannot be read: %v", script, err)
		}
	}
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}

// freePort returns a port on which no process listens now.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// The job server is killed, and the run; a watching client keeps watching, a new job server finds the job, and the model is that of a
// single process. The job belongs to the group of the client's token; the token of another group can neither see nor stop it.
func TestServerAndRunKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	t.Cleanup(s.killBelow)
	job := s.job(choices{Clocks: 40, Speed: 120, Flops: 20_000, Limits: "checkpoint: {every_clocks: 3}"})
	if err := os.Mkdir(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	serve := func() *process {
		p := s.start("server", "--directory", "work", "--listen", address, "--groups", "groups.yaml")
		s.poll("the job server's token and door", func() bool {
			_, err := os.Stat(s.path("work", "token"))
			if err != nil {
				return false
			}
			response, err := http.Get("http://" + address + "/login")
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return true
		})
		return p
	}
	sum := func(group string) string {
		secret := rand.Text()
		if err := os.WriteFile(s.path(group+".token"), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := access.Parse(secret)
		if err != nil {
			t.Fatal(err)
		}
		return token.SHA256()
	}
	s.write("groups.yaml", fmt.Sprintf("vision: {submit: %s, quota: {jobs: 2}}\nspeech: {administer: %s, budget: $5}\n", sum("vision"), sum("speech")))
	manager := serve()
	ask := func(token string, args ...string) *process {
		return s.start(append(args, "--server", "http://"+address, "--token-file", token)...)
	}
	client := ask("vision.token", "run", "-y", "--plain", job)
	entries := func() []journal.Entry {
		all, _, _ := journal.ReadFile(s.path("work", rundir.Root, "small-1", rundir.JournalFile))
		return all
	}
	s.poll("clock 8 and a checkpoint", func() bool { return clockIs(8)(entries()) && has(journal.Checkpoint, 1)(entries()) })
	run := s.processOf(filepath.Join("work", rundir.Root, "small-1"))
	manager.signal(syscall.SIGKILL)
	manager.wait(-1)
	if err := syscall.Kill(run, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := serve()
	if seen := ask("speech.token", "ps", "-q", "-o", "json").wait(0); strings.TrimSpace(seen) != "[]" {
		t.Errorf("another group sees %s", seen)
	}
	if refused := ask("speech.token", "stop", "small-1").wait(cli.ExitFailed); !strings.Contains(refused, `no job "small-1" that this token may watch`) {
		t.Errorf("another group stops the job: %s", refused)
	}
	s.poll("the last clock", func() bool { return clockIs(40)(entries()) })
	printed := client.wait(0) // it waits for a job server to answer, and keeps watching
	for _, words := range []string{"small-1 is on the job server", "small: finished", "Model    tierml fetch small-1"} {
		if !strings.Contains(printed, words) {
			t.Errorf("%q is not in what the client prints:\n%s", words, printed)
		}
	}
	starts := count(entries(), journal.Start)
	if starts != 2 {
		t.Errorf("the run began %d times", starts)
	}
	checkEntries(t, entries())
	model, err := os.ReadFile(s.path("work", rundir.Root, "small-1", rundir.ModelFile))
	if err != nil || !bytes.Equal(model, s.modelOfOneProcess(s.path(job))) {
		t.Errorf("the model is not that of a single process: %v", err)
	}
	for token, want := range map[string]string{"vision.token": "vision", filepath.Join("work", "token"): "speech,vision"} {
		var account call.Account
		var groups []string
		if err := json.Unmarshal([]byte(ask(token, "ps", "-q", "--groups", "-o", "json").wait(0)), &account); err != nil {
			t.Fatal(err)
		}
		for _, g := range account.Groups {
			groups = append(groups, g.Group)
			if g.Group == "vision" && (g.Jobs != 1 || g.QuotaJobs != 2) {
				t.Errorf("the group has %+v", g)
			}
		}
		if all := strings.Join(groups, ","); all != want {
			t.Errorf("%s shows the groups %s; want %s", token, all, want)
		}
	}
	again.signal(os.Interrupt)
	again.wait(0)
	s.nothingRuns()
}

// processOf returns the run's process of a directory: the one that has the journal open.
func (s *site) processOf(dir string) int {
	s.t.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range found {
		if file, _ := os.Readlink(fd); file == s.path(dir, rundir.JournalFile) {
			program, _ := os.Readlink(filepath.Join(filepath.Dir(filepath.Dir(fd)), "exe"))
			pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
			args, _ := os.ReadFile(filepath.Join("/proc", strings.Split(fd, "/")[2], "cmdline"))
			if err == nil && program == filepath.Join(binary.dir, "tierml") && bytes.Contains(args, []byte("\x00--into\x00")) {
				return pid
			}
		}
	}
	s.t.Fatalf("nobody runs in %s", dir)
	return 0
}
