package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/internal/rundir"
)

// bucket is an S3 bucket that records how controllers and machines use it, each at an address of their own.
type bucket struct {
	t     *testing.T
	store http.Handler

	mu      sync.Mutex
	objects map[string]bool
	used    map[string]map[use]bool // by role
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	return &bucket{t: t, store: gofakes3.New(backend).Server(), objects: map[string]bool{}, used: map[string]map[use]bool{}}
}

// door returns the address at which a role finds the bucket.
func (b *bucket) door(role string) string {
	b.used[role] = map[use]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/bucket") { // another test's program searches all ports for a metadata service
			http.NotFound(w, r)
			return
		}
		if b.note(role, r) {
			b.store.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden) // as S3 does for a missing object in a bucket that may be listed only below prefixes
		_, _ = fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
	}))
	b.t.Cleanup(server.Close)
	return server.URL
}

// note records a request. It reports false if a machine reads a missing object.
func (b *bucket) note(role string, r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	query, u := r.URL.Query(), use{name: strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")}
	switch {
	case r.Method == http.MethodGet && u.name == "":
		u = use{"list", query.Get("prefix")}
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		if u.verb = "get"; !b.objects[u.name] {
			return role != "machines"
		}
	case r.Method == http.MethodPut, r.Method == http.MethodPost && (query.Has("uploads") || query.Has("uploadId")):
		if u.verb = "put"; b.objects[u.name] && !query.Has("uploadId") {
			u.verb = "replace"
		}
		b.objects[u.name] = true
	case r.Method == http.MethodDelete && query.Has("uploadId"):
		u.verb = "abort"
	case r.Method == http.MethodDelete && u.name != "":
		u.verb = "delete"
		delete(b.objects, u.name)
	default:
		b.t.Errorf("nothing is known of the rights that %s %s takes", r.Method, r.URL)
	}
	b.used[role][u] = true
	return true
}

// uses returns a role's uses, sorted, and forgets them.
func (b *bucket) uses(role string) (all []use) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for u := range b.used[role] {
		all = append(all, u)
	}
	clear(b.used[role])
	slices.SortFunc(all, func(a, b use) int { return strings.Compare(a.name+" "+a.verb, b.name+" "+b.verb) })
	return all
}

// Runs of each kind keep their data in a bucket. Both Terraform modules allow everything that their controllers and machines did there, and
// some run needs each statement about the bucket. Jobs on slots of shared hosts make no difference.
func TestModulesAllowWhatRunsDo(t *testing.T) {
	if raced.Detector {
		t.Skip("other tests race these runs")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed, and machines fetch the program with it: apt-get install curl")
	}
	t.Parallel()
	b := newBucket(t)
	near, far := b.door("controller"), b.door("machines")
	put := func(name, text string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, near+"/bucket/"+name, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("put %s: %v, %v", name, response, err)
		}
		_ = response.Body.Close()
	}
	put("program/tierml-1", "#!/bin/bash\nexec "+builtBinary(t)+" \"$@\"\n")
	put("data/a.csv", "1\n")
	b.uses("controller") // those were of Terraform and a person

	all := map[string][]use{}
	for _, kind := range []string{"training", "single", "gang", "array", "sweep", "hosts"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t)
			s.runIn(kind, near, far)
			for _, role := range []string{"controller", "machines"} {
				uses := b.uses(role)
				if len(uses) == 0 {
					t.Errorf("the %s did nothing", role)
				}
				all[role] = append(all[role], uses...)
			}
		})
	}
	for _, module := range []string{"aws", "gcp"} {
		tried, crossed := crosses(t, module, all["machines"])
		t.Logf("%s: %d of %d uses of other runs' objects are allowed", module, crossed, tried)
		if tried == 0 || crossed > 0 {
			t.Errorf("%s: %d of %d uses of other runs' objects are allowed", module, crossed, tried)
		}
	}
	for module, rights := range map[string]map[string][]right{
		"aws": {"controller": amazonRights(t, "controller_policy"), "machines": machineRights(t, "aws")},
		"gcp": {"controller": googleRights(t, "controller"), "machines": machineRights(t, "gcp")},
	} {
		for role, uses := range all {
			denied := func(rights []right) (uses []use) {
				for _, u := range all[role] {
					if !allowed(module, rights, u) {
						uses = append(uses, u)
					}
				}
				return uses
			}
			no := denied(rights[role])
			t.Logf("%s: %d of %d uses by the %s are denied, with %d statements", module, len(no), len(uses), role, len(rights[role]))
			if len(no) > 0 {
				t.Errorf("%s: the %s may not %v", module, role, no[:min(len(no), 10)])
			}
			for i, r := range rights[role] {
				if len(denied(slices.Delete(slices.Clone(rights[role]), i, i+1))) == 0 {
					t.Errorf("%s: no run needs what %s allows the %s", module, r.name, role)
				}
			}
		}
	}
}

// crosses counts the uses of a run's own objects, and how many the credentials of another run allow.
func crosses(t *testing.T, module string, uses []use) (tried, crossed int) {
	runs := map[string][]right{}
	for _, u := range uses {
		if run := runOf(u.name); run != "" {
			runs[run] = sessionRights(t, module, run)
		}
	}
	for _, u := range uses {
		for run, rights := range runs {
			if own := runOf(u.name); own == "" || own == run {
				continue
			}
			if tried++; allowed(module, rights, u) {
				crossed++
			}
		}
	}
	return tried, crossed
}

// runIn runs a job of a kind with checkpoints in a bucket, which its controller and its machines find at different addresses.
func (s *site) runIn(kind, near, far string) {
	s.t.Helper()
	s.write("guest", "#!/bin/bash\nexport AWS_ENDPOINT_URL_S3="+far+"\n"+
		`[ -e tierml ] || { curl -fsS -o "tierml.$$" "$AWS_ENDPOINT_URL_S3/bucket/program/tierml-1" && chmod +x "tierml.$$" && mv "tierml.$$" tierml; } || exit 1
exec ./tierml agent
`)
	start := func(args ...string) *process {
		cmd := exec.Command(builtBinary(s.t), args...)
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL_S3="+near)
		return s.startCommand(cmd)
	}
	const to = "s3://bucket/checkpoints?region=us-east-1&anonymous=true"
	job, run, speed := "own.yaml", "own-1", "60"
	counts := "envs: {UNTIL: 50, " + s.gate(40) + "}"
	read := "curl -fsS " + far + "/bucket/data/a.csv >/dev/null"
	machines := func(n int) string {
		return fmt.Sprintf("resources: {count: %d, any_of: [{type: c3.large, max_price: 0.10}]}\ncheckpoint: {to: '%s'}", n, to)
	}
	switch kind {
	case "hosts":
		s.sharedMarket()
		speed = "600" // slots are billed when their hosts' hours end
		fallthrough
	case "training":
		job, run = s.job(choices{Clocks: 30, Flops: 30_000, Limits: "checkpoint: {every_clocks: 3, to: '" + to + "'}"}), "small-1"
	case "single":
		s.programJob(machines(1), "run: "+read+" && bash count.sh", counts)
	case "gang":
		s.programJob(machines(2), "run: bash count.sh", counts)
	case "array":
		s.programJob(machines(2), "tasks: 3", "run: bash count.sh", counts)
	case "sweep":
		s.programJob(machines(2), "tasks: 3", "sweep: {envs: {RATE: log 1e-4..1}, samples: 3}",
			"run: 'bash count.sh && echo 50 $RATE >$TIERML_PROGRESS_FILE'", counts)
	}
	cloud, endpoint := s.cloudOf("--prices", "prices.csv", "--catalog", "catalog.csv", "--start", "2014-04-01T00:00:00Z", "--speed", speed, "--notice", "4s",
		"--set", "boot=100ms", "--set", "flops-per-vcpu=50000", "--set", "log-dir=cloudlogs", "--instance-command", "bash guest")
	where := []string{"--endpoint", endpoint}
	var keeper *process
	if kind == "hosts" {
		s.write("shared.yaml", sharedHosts+"checkpoint: {to: '"+to+"'}\n")
		keeper = start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
		s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
		where = []string{"--on", "shared-1"}
	}
	p := start(append([]string{"run", "-y", "--plain", job}, where...)...)
	if kind != "training" && kind != "hosts" {
		s.until(p, run, "saved state", func(e []journal.Entry) bool { return count(e, journal.ProgramSaved) > 0 && reached(12)(e) })
		s.tell(endpoint, "evict oldest")
		s.until(p, run, "an eviction", func(e []journal.Entry) bool { return count(e, journal.Evicted) > 0 })
		s.gate(50)
	}
	p.wait(0)
	if keeper != nil {
		start("stop", "shared-1").wait(0)
		keeper.wait(0)
	}
	cloud.signal(os.Interrupt)
	cloud.wait(0)
}
