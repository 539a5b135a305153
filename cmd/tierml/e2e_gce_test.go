package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// gceCatalog and gcePrices are the market of the fake Compute Engine.
const (
	gceCatalog = "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-central1,n2-standard-2,2,8,0.097\n"
	gcePrices  = "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-central1-a,n2-standard-2,Linux/UNIX,0.023\n"
)

// gceJob is a job as terraform/gcp's settings make it, with placeholders: STORE, PROGRAM and CLOUD.
const gceJob = `name: small
cloud: gce
policy: tierml
resources: {count: 3, any_of: [{type: n2-standard-2}], zones: [us-central1-a]}
reliable: {type: n2-standard-2}
heartbeat: 500ms
dead_after: 60s
seed: 5
train:
  app: mf
  data: ratings.csv
  holdout: 0.2
  clocks: 80
  splits: 12
  partitions: 8
  evaluate_every: 5
  params: {rank: 4, batches: 4}
stages: {two_above: 1, three_above: 3}
gce:
  project: some-project
  region: us-central1
  cluster: prod
  owner: ann
  subnetwork: projects/some-project/regions/us-central1/subnetworks/prod
  service_account: prod-mch@some-project.iam.gserviceaccount.com
  program: {url: "gs://bucket/program/tierml-1", sha256: %s}
  checkpoints: gs://bucket/checkpoints
  catalog: catalog.csv
  prices: prices.csv
  listen: 127.0.0.1:0
  endpoint: %s
`

// googleStore runs a store that speaks Cloud Storage's protocol and has the program in it, until the test ends.
func googleStore(t *testing.T, program []byte) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it needs its own address before it listens
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		Scheme: "http", Host: "127.0.0.1", Port: uint16(at.Port), PublicHost: at.String(),
		InitialObjects: []fakestorage.Object{{ObjectAttrs: fakestorage.ObjectAttrs{BucketName: "bucket", Name: "program/tierml-1"}, Content: program}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return at.String()
}

// computeEngine starts a fake Compute Engine whose machines do what a real guest does: run the startup script from their metadata server.
func (s *site) computeEngine(store string, more ...string) (p *process, endpoint string) {
	s.t.Helper()
	s.noRules()
	s.env = append(s.env, "STORAGE_EMULATOR_HOST="+store)
	s.write("guest", gceGuest(store))
	return s.cloudOf(append([]string{"--provider", "gce", "--prices", "prices.csv", "--catalog", "catalog.csv", "--start", time.Now().UTC().Format(time.RFC3339),
		"--speed", "1", "--notice", "30s", "--set", "boot=100ms", "--set", "flops-per-vcpu=20000", "--set", "log-dir=cloudlogs", "--instance-command", "bash guest"}, more...)...)
}

// gceGuest returns what a machine of the fake Compute Engine runs after booting.
func gceGuest(store string) string {
	return `#!/bin/bash
export PATH="$PWD/tools:$PATH" STORAGE_EMULATOR_HOST=` + store + ` TIERML_HOME="$PWD/machines/$$" TIERML_POWER_OFF=true
mkdir -p "$TIERML_HOME"
curl --fail --silent --show-error --header 'Metadata-Flavor: Google' --output "$TIERML_HOME/startup-script" \
  "http://$GCE_METADATA_HOST/computeMetadata/v1/instance/attributes/startup-script" || exit 1
exec bash "$TIERML_HOME/startup-script"
`
}

// A job of cloud: gce, like Compute Engine in everything but the machines' hosts: prices by the API, the program and the splits by a store,
// one-time tokens, TLS. Its controller is killed and another one takes over; then a run that is not continued leaves machines in the
// cluster, which are cleaned up.
func TestComputeEngine(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "sha256sum", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, and machines' first script runs it: apt-get install bash coreutils curl sed", tool)
		}
	}
	t.Parallel()
	s := newSite(t)
	s.write("catalog.csv", gceCatalog)
	s.write("prices.csv", gcePrices)
	program, sum := wrappedProgram(t)
	store := googleStore(t, program)
	cloud, endpoint := s.computeEngine(store)
	s.write("job.yaml", fmt.Sprintf(gceJob, sum, endpoint))
	s.replace("job.yaml", "  catalog: catalog.csv\n  prices: prices.csv\n", "") // they come from the APIs
	printed := s.start("plan", "job.yaml").wait(0)
	for _, words := range []string{"Compute Engine has the machine types of all", "On-demand prices: Cloud Billing Catalog of us-central1, asked ",
		"Spot prices: Compute Engine's capacity history", "Capacity for 3 machines: Compute Engine, asked now, of 1 pools"} {
		if !strings.Contains(strings.Join(strings.Fields(printed), " "), words) {
			t.Errorf("the plan does not say %q:\n%s", words, printed)
		}
	}
	s.replace("job.yaml", "  listen: ", "  prices: prices.csv\n  listen: ")

	run := s.start("run", "-y", "job.yaml")
	s.until(run, "small-1", "a clock after all have joined", func(entries []journal.Entry) bool {
		return clockIs(5)(entries) && has(journal.Join, 4)(entries) && entries[len(entries)-1].Kind == journal.ClockDone
	})
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	before := s.journal("small-1")
	if printed := s.start("leaks", "job.yaml").wait(0); strings.Count(printed, "\n") != 5 || !strings.Contains(printed, "small-1-") || !strings.Contains(printed, "ann") {
		t.Errorf("of the machines without a controller it says\n%s", printed)
	}
	printed = s.start("run", "-y", "--resume", filepath.Join(rundir.Root, "small-1")).wait(0)
	entries := s.journal("small-1")
	checkEntries(t, entries)
	taken := 0
	for _, e := range entries[len(before):] {
		switch e.Kind {
		case journal.TakeOver:
			taken = e.Count
		case journal.Launch:
			t.Errorf("it bought %s though all were there", e.Instance)
		}
	}
	for what, text := range map[string]string{"the run": printed, "its page": string(s.read("small-1", rundir.ReportHTML))} {
		if text = strings.ReplaceAll(text, "without bids", ""); strings.Contains(text, " bid") || strings.Contains(text, "BID") {
			t.Errorf("Compute Engine takes no bids, and %s speaks of them:\n%s", what, text)
		}
	}
	if taken != 4 {
		t.Errorf("%d machines were taken over; it printed\n%s", taken, printed)
	}
	s.noMachineLeft(endpoint)
	s.trainedAsAlone("small-1", s.path("job.yaml"))

	lost := s.start("run", "-y", "job.yaml")
	s.until(lost, "small-2", "its machines", has(journal.Join, 4))
	s.tell(endpoint, "evict newest") // in wall-clock time: 30 s, which the machine reads from its metadata
	s.until(lost, "small-2", "the notice", has(journal.Notice, 1))
	for _, e := range s.journal("small-2") {
		if e.Kind == journal.Notice && (e.Deadline == nil || e.Deadline.Sub(e.T) > 31*time.Second) {
			t.Errorf("a preemption with 30 s of notice is reported as %+v", e)
		}
	}
	lost.signal(syscall.SIGKILL)
	lost.wait(-1)
	if printed := s.start("down", "-y", "job.yaml").wait(0); !strings.Contains(printed, "Asked Compute Engine to end ") || !strings.Contains(printed, "All have ended.") {
		t.Errorf("down says\n%s", printed)
	}
	if printed := s.start("leaks", "job.yaml").wait(0); !strings.Contains(printed, "No machine of cluster prod in us-central1 is left.") {
		t.Errorf("after it leaks says\n%s", printed)
	}
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}
