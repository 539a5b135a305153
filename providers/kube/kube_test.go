package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/oauth2"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// load reads a job with more lines below kubernetes.
func load(t *testing.T, more string) (*config.Job, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"ratings.csv": "x", "catalog.csv": catalog, "spot.csv": spot, "job.yaml": `
name: pods
cloud: kubernetes
resources: {count: 2, any_of: [{type: n2-standard-4}], zones: [us-central1-a]}
train: {app: mf, data: ratings.csv, clocks: 4}
kubernetes:
  region: us-central1
  image: registry.example.com/tierml@sha256:` + strings.Repeat("0a", 32) + `
  nodes: gke
  checkpoints: s3://bucket/checkpoints
` + more} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(filepath.Join(dir, "job.yaml"))
}

const (
	catalog = "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-central1,n2-standard-4,4,16,0.2\nus-central1,n2-standard-8,8,32,0.4\n"
	spot    = "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-central1-a,n2-standard-4,Linux/UNIX,0.05\n"
	size    = "  cpu: 2\n  memory: 4GB\n"
)

func TestBlock(t *testing.T) {
	job, err := load(t, size+"  wait: 2h\n  spot: $0.01\n  on_demand: $0.04\n")
	if err != nil {
		t.Fatal(err)
	}
	if b := blockOf(job); b.Namespace != "tierml" || b.Notice != 15*time.Second || job.Local.Notice != b.Notice || job.Security != config.SecurityTLS {
		t.Errorf("%+v", b)
	}
	plain, err := load(t, size)
	if err != nil {
		t.Fatal(err)
	}
	if longer := job.Tempo().BootWithin - plain.Tempo().BootWithin; longer != 100*time.Minute {
		t.Errorf("waiting for quota: %s more, want 1h40m", longer)
	}
	for more, want := range map[string]string{
		"  memory: 4GB\n":                            "kubernetes.cpu: is no number of vCPUs",
		"  cpu: 2\n":                                 "kubernetes.memory: is no memory",
		size + "  queue: Team A\n":                   "is not the name of an object",
		size + "  notice: 1500ms\n":                  "is no grace for a pod",
		size + "  program: {url: https://x.org/t}\n": "kubernetes.program: Kubernetes runs what the machines' image has; remove it",
	} {
		if _, err := load(t, more); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", more, err, want)
		}
	}
}

// A file of shared hosts describes pods, and a job's pods are then its slots. All of a host are one user's.
func TestHostsOfPods(t *testing.T) {
	read := func(hosts, more string) (*config.Job, error) {
		path := filepath.Join(t.TempDir(), "shared.yaml")
		text := "name: shared\ncloud: kubernetes\nresources: {count: 2, any_of: [{type: g2-standard-24}]}\nreliable: {count: 0}\nhosts: " + hosts +
			"\nkubernetes: {image: i, nodes: gke, region: r, checkpoints: s3://b/c" + more + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.LoadHosts(path)
	}
	job, err := read("{keep: 1m}", ", cpu: 4, memory: 8GB, resources: {nvidia.com/gpu: 2}")
	if err != nil {
		t.Fatal(err)
	}
	if size := job.MachineSize(); size.VCPU != 4 || size.MemoryMiB != 8<<10 || size.GPU.Count != 2 {
		t.Errorf("a host has %+v", size)
	}
	if _, err := read("{users: 20000..20009, door: /srv}", ", cpu: 4, memory: 8GB"); err == nil || !strings.Contains(err.Error(), "hosts.users: cannot be kept apart on Kubernetes") {
		t.Errorf("other users: %v", err)
	}
}

// A pod requests the GPUs of the job, and costs its largest share of the node's resources.
func TestGPUsOfPods(t *testing.T) {
	read := func(resources, more string) (*config.Job, error) {
		dir := t.TempDir()
		text := "name: g\ncloud: kubernetes\nrun: ./train\nresources: {count: 1, " + resources + "}\nkubernetes: {region: us-central1, image: i, nodes: gke, checkpoints: s3://b/c, cpu: 1, memory: 1GB, catalog: c.csv, spot: $0.5" + more + "}\n"
		rows := "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-central1,g2-standard-24,24,96,2\nus-central1,n1-standard-8,8,30,4\nus-central1,n2-standard-4,4,16,0.2\n"
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "c.csv"), []byte(rows), 0o600)); err != nil {
			t.Fatal(err)
		}
		return config.Load(filepath.Join(dir, "job.yaml"))
	}
	job, err := read("gpu: L4:1", "")
	if err != nil || blockOf(job).Resources["nvidia.com/gpu"] != 1 {
		t.Fatalf("%v", err)
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(again, job.Resolved(), 0o600); err != nil {
		t.Fatal(err)
	}
	if second, err := config.Load(again); err != nil || blockOf(second).Resources["nvidia.com/gpu"] != 1 {
		t.Errorf("%v of\n%s", err, job.Resolved())
	}
	job.Local.Start = time.Now()
	m, err := soldTo(t.Context(), job, cluster{nodes: []api.Node{{Type: "n1-standard-8", Zone: "z", GPU: "NVIDIA-Tesla-T4", Extended: map[string]int64{"nvidia.com/gpu": 4}},
		{Type: "g2-standard-24", Zone: "z"}, {Type: "n2-standard-4", Zone: "z"}}})
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := m.Offers()
	prices := map[string]market.USD{}
	for _, o := range offers {
		prices[o.Type.Name+" "+o.Type.GPU.String()] = o.Type.OnDemand
	}
	if prices["g2-standard-24 L4:1"] != market.Dollar || prices["n1-standard-8 T4:1"] != market.Dollar {
		t.Errorf("%v", prices)
	}
	for more, want := range map[string]string{
		", resources: {nvidia.com/gpu: 2}": "kubernetes.resources: give a pod 2 GPUs, and the job asks for L4:1",
		", resources: {cpu: 2}":            "cpu: 2 is no extended resource",
		", gang: true":                     "kubernetes.gang: is for pods that wait in a queue",
		", pod: {spec: {hostPID: true}}":   "kubernetes.pod: spec.hostPID is TierML's own",
		", pod: 7":                         "kubernetes.pod: is no mapping",
	} {
		if _, err := read("gpu: L4:1", more); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", more, err, want)
		}
	}
	job, err = read("any_of: [{type: n2-standard-4}]", ", pod: {metadata: {labels: {team: a}}, spec: {tolerations: [{key: ml, operator: Exists, tolerationSeconds: 3}]}}")
	if err != nil || !strings.Contains(string(job.Resolved()), "tolerationSeconds: 3") {
		t.Errorf("%v", err)
	}
}

// If the job names known types, a pod takes most of the smallest one.
func TestSizeByTheType(t *testing.T) {
	if _, err := load(t, "  cpu: 2\n"); err == nil {
		t.Error("a type that is not known gave a size")
	}
	dir := t.TempDir()
	text := "name: s\ncloud: kubernetes\nrun: ./train\nresources: {count: 1, any_of: [{type: m5.2xlarge}, {type: m5.xlarge}]}\nkubernetes: {region: us-west-2, image: i, nodes: eks, checkpoints: s3://b/c}\n"
	if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := config.Load(filepath.Join(dir, "job.yaml"))
	if err != nil || blockOf(job).CPU != 3 || blockOf(job).Memory.MiB != 12<<10 {
		t.Errorf("%v, %+v", err, job)
	}
}

type cluster struct {
	nodes   []api.Node
	missing []api.Right
	err     error
}

func (c cluster) Nodes(context.Context) ([]api.Node, error)               { return c.nodes, c.err }
func (c cluster) Version(context.Context) (string, error)                 { return "v1.37.2", nil }
func (c cluster) Try(context.Context, market.Pool) error                  { return nil }
func (c cluster) Holdings(context.Context) ([]provisioner.Holding, error) { return nil, nil }
func (c cluster) Missing(_ context.Context, of []api.Right) ([]api.Right, error) {
	var all []api.Right
	for _, r := range of {
		if slices.Contains(c.missing, r) {
			all = append(all, r)
		}
	}
	return all, nil
}

// A pod costs its share of the node, of vCPUs or of memory, whichever is more; types missing from the price store are named and not
// offered.
func TestMarket(t *testing.T) {
	job, err := load(t, "  cpu: 1\n  memory: 8GB\n  catalog: catalog.csv\n  prices: spot.csv\n  prices_of: gce\n")
	if err != nil {
		t.Fatal(err)
	}
	job.Local.Start = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	job.Resources.Zones = nil
	m, err := soldTo(t.Context(), job, cluster{nodes: []api.Node{{Zone: "us-central1-a", Type: "n2-standard-4", VCPU: 3, MemoryMiB: 13 << 10}, {Zone: "us-central1-b", Type: "e2-tiny"}}})
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := m.Offers()
	if len(offers) != 1 || offers[0].Type.OnDemand != market.Dollar/10 || offers[0].Type.VCPU != 1 {
		t.Fatalf("%+v", offers)
	}
	if price, ok := offers[0].History.At(job.Local.Start); !ok || price != market.Dollar/40 {
		t.Errorf("%s, %v", price, ok)
	}
	if said := strings.Join(m.Sources, "\n"); !strings.Contains(said, "Prices: unknown of spot n2-standard-4 in us-central1-b; not used.") {
		t.Error(said)
	}
	blockOf(job).Catalog, blockOf(job).Prices = "", ""
	if _, err := soldTo(t.Context(), job, cluster{}); err == nil || !strings.Contains(err.Error(), "no price of a pod is known on n2-standard-4") {
		t.Error(err)
	}
	blockOf(job).Spot, blockOf(job).OnDemand = market.Dollar/100, market.Dollar/25
	m, err = soldTo(t.Context(), job, cluster{err: provisioner.ErrDenied})
	if err != nil {
		t.Fatal(err)
	}
	if offers, _ = m.Offers(); len(offers) != 1 || offers[0].Pool.Zone != api.AnyZone || !strings.Contains(m.Sources[0], "Nodes: unknown; not allowed") {
		t.Errorf("%+v %v", offers, m.Sources)
	}
}

func TestChecks(t *testing.T) {
	job, err := load(t, size)
	if err != nil {
		t.Fatal(err)
	}
	look := func(c cluster) map[string]doctor.Result {
		all := map[string]doctor.Result{}
		for _, r := range doctor.Run(t.Context(), checks(job, func() (doctorAPI, error) { return c, nil }), func(doctor.Result) {}) {
			all[r.Check] = r
		}
		return all
	}
	room := []api.Node{{VCPU: 4, MemoryMiB: 8 << 10}}
	good := look(cluster{nodes: room})
	for name, r := range good {
		if r.Status != doctor.OK {
			t.Errorf("%s: %+v", name, r)
		}
	}
	bad := look(cluster{nodes: room, missing: []api.Right{{Verb: "create", Resource: "pods/eviction"}, {Verb: "watch", Resource: "nodes"}}})
	if r := bad["permissions"]; r.Status != doctor.Failed || r.Found != "not allowed in namespace tierml: create pods/eviction" {
		t.Errorf("%+v", r)
	}
	if r := bad["nodes"]; r.Status != doctor.Warning || r.Found != "not allowed: watch nodes" {
		t.Errorf("%+v", r)
	}
}

// A job may omit what nodes' labels have; if they lack it, or may not be listed, the error says what to do.
func TestFoundByLabels(t *testing.T) {
	open := func() *config.Job {
		dir := t.TempDir()
		text := "name: o\ncloud: kubernetes\nrun: ./train\nresources: {count: 1, any_of: [{type: m5.xlarge}]}\nkubernetes: {image: i, checkpoints: s3://b/c, spot: $0.1, on_demand: $0.2}\n"
		if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		job, err := config.Load(filepath.Join(dir, "job.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	group, capacity, east := api.Node{Kind: api.EKS, Region: "us-east-1"}, api.Node{Kind: api.Karpenter, Region: "us-east-1"}, api.Node{Kind: api.EKS, Region: "eu-west-1"}
	for name, c := range map[string]struct {
		nodes        []api.Node
		kind, region string
		problem      string
	}{
		"managed groups":        {[]api.Node{group, group}, "eks", "us-east-1", ""},
		"Karpenter runs on one": {[]api.Node{group, capacity}, "karpenter", "us-east-1", ""},
		"GKE":                   {[]api.Node{{Kind: api.GKE, Region: "us-central1"}}, "gke", "us-central1", ""},
		"no labels":             {[]api.Node{{Kind: api.Plain}}, "plain", "any", ""},
		"two regions":           {[]api.Node{group, east}, "eks", "", "kubernetes.region: the cluster has nodes in eu-west-1, us-east-1; write one"},
		"none":                  {nil, "", "", "kubernetes: nodes and region cannot be found: the cluster has no nodes now; write nodes and region below kubernetes:"},
	} {
		job := open()
		err := find(job, c.nodes)
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v, want %q", name, err, c.problem)
		}
		if b := blockOf(job); b.Nodes != c.kind || b.Region != c.region {
			t.Errorf("%s: nodes %q, region %q", name, b.Nodes, b.Region)
		}
		if err == nil && (len(job.Assumed()) < 2 || !strings.Contains(string(job.Resolved()), "nodes: "+c.kind)) {
			t.Errorf("%s: neither the plan nor the run's job file says so: %v\n%s", name, job.Assumed(), job.Resolved())
		}
	}
	denied := untold(open(), fmt.Errorf("listing nodes: %w: forbidden", provisioner.ErrDenied)).Error()
	if !strings.Contains(denied, "nodes and region cannot be found by the nodes' labels: listing nodes") || !strings.Contains(denied, roleAdvice) {
		t.Error(denied)
	}
	for name, c := range map[string]struct {
		cluster
		nodes, admission doctor.Status
	}{
		"there":     {cluster{nodes: []api.Node{{Kind: api.GKE, Region: "r", VCPU: 9, MemoryMiB: 99 << 10}}}, doctor.OK, doctor.OK},
		"forbidden": {cluster{missing: api.NodeRights}, doctor.Failed, doctor.Skipped},
		"no nodes":  {cluster{}, doctor.Failed, doctor.Skipped},
	} {
		for _, r := range doctor.Run(t.Context(), checks(open(), func() (doctorAPI, error) { return c.cluster, nil }), func(doctor.Result) {}) {
			if want := map[string]doctor.Status{"nodes": c.nodes, "admission": c.admission}[r.Check]; want != "" && r.Status != want {
				t.Errorf("%s: %+v, want %s", name, r, want)
			}
		}
	}
}

// The role of deploy/kubernetes grants exactly what is used.
func TestRole(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes/tierml.yaml")
	if err != nil {
		t.Fatal(err)
	}
	given := map[string][]api.Right{}
	for decoder := yaml.NewDecoder(strings.NewReader(string(text))); ; {
		var o struct {
			Kind  string
			Rules []struct {
				Resources, Verbs []string
			}
		}
		if decoder.Decode(&o) != nil {
			break
		}
		for _, rule := range o.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					given[o.Kind] = append(given[o.Kind], api.Right{Verb: verb, Resource: resource})
				}
			}
		}
	}
	sorted := func(all []api.Right) []api.Right {
		all = slices.Clone(all)
		slices.SortFunc(all, func(a, b api.Right) int { return strings.Compare(a.String(), b.String()) })
		return all
	}
	for kind, want := range map[string][]api.Right{"Role": slices.Concat(api.Rights, api.EventRights), "ClusterRole": api.NodeRights} {
		if !slices.Equal(sorted(given[kind]), sorted(want)) {
			t.Errorf("%s gives %v, used are %v", kind, sorted(given[kind]), sorted(want))
		}
	}
}

// The manifests were made from the chart as it is. TestRealChart compares them with Helm's output.
func TestManifestsAreOfTheChart(t *testing.T) {
	sum := sha256.New()
	err := filepath.WalkDir("../../deploy/kubernetes/chart", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		sum.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tierml.yaml", "server.yaml"} {
		text, err := os.ReadFile("../../deploy/kubernetes/" + file)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("of the chart %x;", sum.Sum(nil))) {
			t.Errorf("%s is of another chart: run `make manifests` (%v)", file, err)
		}
	}
}

// SIGTERM is a warning with a deadline; the process continues.
func TestSIGTERMWarns(t *testing.T) {
	t.Setenv(api.EnvNotice, "20s")
	ctx, cancel := context.WithCancel(t.Context())
	warned, done := make(chan tiers.Warned, 1), make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		close(ready)
		done <- Provider{}.Metadata(clock.Real(), discard()).Watch(ctx, func(w tiers.Warned) { warned <- w })
	}()
	<-ready
	began := time.Now()
	w, err := signalUntil(warned)
	if err != nil {
		t.Fatal(err)
	}
	if left := w.Deadline.Sub(began); left < 19*time.Second || left > time.Minute {
		t.Errorf("deadline in %s, want 20s", left)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// signalUntil sends the signal, which is caught from the first poll on.
func signalUntil(warned <-chan tiers.Warned) (w tiers.Warned, err error) {
	catch()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return w, err
		}
		select {
		case w = <-warned:
			return w, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	return w, errors.New("nothing was told within a minute")
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// catch keeps the signal from ending this process before Watch is ready.
func catch() { signal.Notify(make(chan os.Signal, 100), syscall.SIGTERM) }

// The page's job and the example can be loaded.
func TestJobOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../examples/demo-kube.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range api.Patchable {
		if !strings.Contains(string(page), "`"+field+"`") {
			t.Errorf("the page does not name %s", field)
		}
	}
	_, block, _ := strings.Cut(string(page), "```yaml\nkubernetes:\n")
	block, _, _ = strings.Cut(block, "```")
	var patched struct{ Pod map[string]any }
	if err := yaml.Unmarshal([]byte(block), &patched); err != nil || len(patched.Pod) == 0 || api.CheckPatch(patched.Pod) != "" {
		t.Errorf("the page's patch: %v, %s", err, api.CheckPatch(patched.Pod))
	}
	_, onPage, found := strings.Cut(string(page), "```yaml\nname: ratings\n")
	if onPage, _, _ = strings.Cut(onPage, "```"); !found {
		t.Fatal("no job on the page")
	}
	for name, text := range map[string]string{"page": "name: ratings\n" + onPage, "example": strings.Replace(string(example), "data/jester5k.csv.gz", "ratings.csv", 1)} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "ratings.csv"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		job, err := config.Load(filepath.Join(dir, "job.yaml"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		job.Local.Start = time.Now()
		if m, err := soldTo(t.Context(), job, cluster{}); err != nil || len(m.Trace.Markets) == 0 {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// Pods of a run get credentials for the run's own objects, from the cloud whose store it uses: AWS's by the role of the job file, Google's
// by a narrowed token. Without either field they get none.
func TestRunKeysOfPods(t *testing.T) {
	asked := make(chan url.Values, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked <- r.PostForm
		_, _ = w.Write([]byte(`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</SecretAccessKey>` +
			`<SessionToken>t</SessionToken><Expiration>2026-11-21T13:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`))
	}))
	defer service.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_STS": service.URL, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	open := func(more string) account {
		job, err := load(t, size+more+"  endpoint: http://127.0.0.1:1\n")
		if err != nil {
			t.Fatal(err)
		}
		opened, err := Provider{}.Open(t.Context(), job, providers.Session{Run: "small-1"})
		if err != nil {
			t.Fatal(err)
		}
		return opened.(account)
	}
	folder := func(name string) location.Place {
		p, err := location.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	amazon := folder("s3://bucket/checkpoints/small-1?region=us-central1")
	keys, ok, err := open("  store_role: arn:aws:iam::000000000000:role/store\n").RunKeys(t.Context(), "small-1", amazon)
	if form := <-asked; err != nil || !ok || keys.SessionToken != "t" || form.Get("RoleArn") != "arn:aws:iam::000000000000:role/store" ||
		!strings.Contains(form.Get("Policy"), "bucket/checkpoints/small-1/program/state/*") || strings.Contains(form.Get("Policy"), "checkpoints/*") {
		t.Errorf("%+v, %v, %v of %v", keys, ok, err, form)
	}
	google, a := folder("gs://bucket/checkpoints/small-1"), open("  store_tokens: true\n")
	a.tokens.From = oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "wide"})
	exchange := func(r *http.Request) (*http.Response, error) {
		_ = r.ParseForm()
		asked <- r.PostForm
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.WriteString(`{"access_token": "narrow", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 600}`)
		return w.Result(), nil
	}
	keys, ok, err = a.RunKeys(context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: roundTrip(exchange)}), "small-1", google)
	if form := <-asked; err != nil || !ok || keys.Token != "narrow" || !strings.Contains(form.Get("options"), "objects/checkpoints/small-1/program/state/") {
		t.Errorf("%+v, %v, %v of %v", keys, ok, err, form)
	}
	for _, at := range []location.Place{amazon, google} {
		if _, ok, err := open("").RunKeys(t.Context(), "small-1", at); ok || err != nil {
			t.Errorf("without fields: %v, %v", ok, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
