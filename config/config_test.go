package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/fuzzing"
	"github.com/tierml/tierml/market"
)

var update = flag.Bool("update", false, "rewrite golden files")

// here returns what replaces the folder of this package in golden texts.
func here(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text, dir, "$DIR")
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run `make golden`", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// TestBadJobs: one file for each mistake; its message is next to it.
func TestBadJobs(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	if len(files) == 0 {
		t.Fatal("no files in testdata/bad")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			job, err := Load(file)
			if err == nil {
				t.Fatalf("loaded: %+v", job)
			}
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("error is %T: %v", err, err)
			}
			for _, f := range faults {
				if f.Line < 1 || f.Column < 1 || f.Problem == "" || f.Instead == "" {
					t.Errorf("fault without a place, a problem or advice: %+v", f)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", here(t, err.Error())+"\n")
		})
	}
}

// A file with very many mistakes costs little, whether the decoder or the checker finds them.
// A vCPU more or less is resources.vcpu, of all machines; people who write cpu mean a machine's.
func TestCPUMeansCPUs(t *testing.T) {
	_, err := parse("job.yaml", []byte("run: x\nresources: {cpu: 4}\n"), os.LookupEnv)
	if err == nil || !strings.Contains(err.Error(), "resources.cpu: unknown field; did you mean cpus?") {
		t.Error(err)
	}
}

func TestFewMistakesAreReported(t *testing.T) {
	for what, format := range map[string]string{"unknown fields": "x%d: 1\n", "names of variables": "  x-%d: a\n"} {
		text := "run: echo hello\nenvs:\n"
		for i := range 4000 {
			text += fmt.Sprintf(format, i)
		}
		_, err := parse("job.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if faults, _ := errors.AsType[Faults](err); len(faults) != 101 || faults[100].Error() != "job.yaml: has 3900 more mistakes; correct these first" {
			t.Errorf("%s: %d faults: %.300v", what, len(faults), err)
		}
	}
}

func TestLoadUnreadable(t *testing.T) {
	_, err := Load("testdata/no-such.yaml")
	want := "testdata/no-such.yaml: cannot be read: no such file or directory; give the path of a job file; `tierml init` writes one"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := Load("testdata"); err == nil {
		t.Error("a folder loaded")
	}
}

func TestLoadGood(t *testing.T) {
	job, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	utc := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UTC()
	}
	file := func(name string) string {
		path, err := filepath.Abs("testdata/data/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := &Job{
		Name: "demo", Cloud: "local", Provider: "ec2", Security: "plain", Env: map[string]string{},
		Resources: Resources{
			Count: Exactly(18),
			AnyOf: []Machine{
				{Type: "c3.xlarge"},
				{CPUs: CPUs{4, true}, Memory: Memory{7680, true}, Arch: "x86_64", MaxPrice: 300_000_000},
			},
			Zones: []string{"us-west-1a"}, MaxPrice: 239_000_000,
		},
		Reliable: Reliable{Type: "c3.xlarge", Count: 1, Zone: "us-west-1a"},
		Policy:   "tierml", Budget: 20 * market.Dollar, MaxDuration: 36 * time.Hour,
		Deadline: utc("2014-04-02T10:00:00Z"), OrphanAfter: 10 * time.Second,
		Heartbeat: 500 * time.Millisecond, DeadAfter: 3 * time.Second, Seed: 1<<64 - 1,
		Train: Train{
			App: "mf", Data: file("ratings.csv"), Holdout: 0.1, Clocks: 400, Splits: 64, Partitions: 32, Consistency: BSP,
			Deterministic: true, EvaluateEvery: 10,
			Params: map[string]any{"rank": int64(16), "step": 0.01, "note": "007"},
		},
		Stages:     Stages{TwoAbove: 1, ThreeAbove: 15, ServerBytes: 128 << 10},
		Checkpoint: Checkpoint{Every: 10 * time.Second, Keep: 2},
		Local: Local{
			Prices: file("prices.csv"), Catalog: file("catalog.csv"), Rules: "ec2-2017",
			Start: utc("2014-04-01T00:00:00Z"), Speed: 600, Notice: 4 * time.Second, FlopsPerVCPU: 1_500_000,
			Capacity: map[string]int{"c3.2xlarge": 9},
			Script: []Action{
				{Do: "evict", Target: "all"},
				{At: 6 * time.Hour, Do: "kill", Target: "oldest", Count: 1},
				{At: 7 * time.Hour, Do: "no-capacity", Of: "c3.xlarge", For: time.Hour},
				{At: 8 * time.Hour, Do: "slow-start", For: 30 * time.Minute, Boot: 5 * time.Second},
			},
		},
	}
	if diff := cmp.Diff(want, job, cmp.FilterPath(private, cmp.Ignore())); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

// private matches the fields that say where a job was read, not what it is.
func private(p cmp.Path) bool {
	field, ok := p.Last().(cmp.StructField)
	return ok && field.Name() == "origin"
}

// mustRoundTrip checks that a job prints as a file that loads to the same job.
func mustRoundTrip(t *testing.T, job *Job) {
	t.Helper()
	text := job.Resolved()
	again, err := parse(filepath.Join(t.TempDir(), "job.yaml"), text, noEnvironment)
	if err != nil {
		t.Fatalf("the resolved job does not load: %v\n%s", err, text)
	}
	// Env is omitted on purpose, and none may be nil or empty.
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		field, ok := p.Last().(cmp.StructField)
		return private(p) || ok && field.Name() == "Env"
	}, cmp.Ignore())
	if diff := cmp.Diff(job, again, ignore, cmp.Transformer("none", dropEmpty)); diff != "" {
		t.Fatalf("the resolved job is another one (-job +resolved):\n%s\n%s", diff, text)
	}
	if !bytes.Equal(text, again.Resolved()) {
		t.Fatalf("the resolved job prints differently:\n%s\n%s", text, again.Resolved())
	}
	if _, err := json.Marshal(job); err != nil {
		t.Fatalf("as JSON: %v", err)
	}
}

func dropEmpty(m map[string]any) []string {
	var all []string
	for k, v := range m {
		all = append(all, fmt.Sprintf("%s=%T %v", k, v, v))
	}
	slices.Sort(all)
	return all
}

func TestResolvedLoadsAgain(t *testing.T) {
	job, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mustRoundTrip(t, job)
	golden(t, "testdata/good.resolved.golden", here(t, string(job.Resolved())))
	for _, text := range []string{"run: echo hello\n", "train: {app: mf, data: testdata/data/ratings.csv, clocks: 1}\n", "cloud: none\nmax_duration: 0s\ntrain: {app: mf, data: testdata/data/ratings.csv, clocks: 1}\n",
		"train: {app: mf, data: testdata/data/ratings.csv, clocks: 1}\nreliable: {count: 0}\nstages: {two_above: 0, three_above: 0, server_bytes: 0}\n",
		"cloud: local\nhosts: {keep: 5m}\nresources: {any_of: [{type: c3.large}]}\nreliable: {count: 0}\nlocal: {catalog: testdata/good.yaml, prices: testdata/good.yaml, start: 2014-04-01T00:00:00Z}\n"} {
		job, err := parse("job.yaml", []byte("name: zero\n"+text), noEnvironment)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		mustRoundTrip(t, job)
	}
}

func TestSubstitution(t *testing.T) {
	text := `
env: {WHO: ada, FROM_OUTSIDE: , FOLDER: testdata/data}
name: job-of-${WHO}-${FROM_OUTSIDE}
cloud: none
train: {app: mf, data: "${FOLDER}/ratings.csv", clocks: 1, params: {note: "${WHO}"}}
`
	lookup := func(name string) (string, bool) { return "7", name == "FROM_OUTSIDE" }
	job, err := parse("job.yaml", []byte(text), lookup)
	if err != nil {
		t.Fatal(err)
	}
	if job.Name != "job-of-ada-7" || !strings.HasSuffix(job.Train.Data, "/testdata/data/ratings.csv") {
		t.Errorf("name %q, data %q", job.Name, job.Train.Data)
	}
	if got := job.Train.Params["note"]; got != "${WHO}" {
		t.Errorf("params are the application's own, but note is %q", got)
	}
	if job.OrphanAfter != 0 {
		t.Errorf("orphan_after %v without a cloud", job.OrphanAfter)
	}
}

func TestFaultOfOthersHasAPlace(t *testing.T) {
	job, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"train.params.rank":         "testdata/good.yaml:21:18: train.params.rank: too large; write 8",
		"train.params.batches":      "testdata/good.yaml:21:11: train.params.batches: too large; write 8",
		"resources.any_of[1].arch":  "testdata/good.yaml:7:40: resources.any_of[1].arch: too large; write 8",
		"resources.any_of[9].arch":  "testdata/good.yaml:6:5: resources.any_of[9].arch: too large; write 8",
		"stages.two_above":          "testdata/good.yaml:1:1: stages.two_above: too large; write 8",
		"local.capacity.c3.2xlarge": "testdata/good.yaml:28:26: local.capacity.c3.2xlarge: too large; write 8",
	} {
		if got := job.Fault(field, "too large", "write 8").Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func noEnvironment(string) (string, bool) { return "", false }

// TestReference checks that every example of docs/job.md loads; TestFieldLists that it has every field.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("../docs/job.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```yaml\n")[1:]
	if len(examples) == 0 {
		t.Fatal("docs/job.md has no example")
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		loadsAnywhere(t, "docs/job.md", example)
	}
}

func TestShippedExamples(t *testing.T) {
	files, _ := filepath.Glob("../examples/*.yaml")
	programs, _ := filepath.Glob("../examples/programs/*.yaml")
	if len(files) == 0 || len(programs) == 0 {
		t.Fatal("no examples")
	}
	files = append(files, programs...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		loadsAnywhere(t, file, string(text))
	}
}

// loadsAnywhere loads an example in a folder in which every file that it names exists.
func loadsAnywhere(t *testing.T, name, text string) {
	t.Helper()
	var named struct {
		Train   struct{ Data string }
		Local   struct{ Prices, Catalog string }
		Workdir string
	}
	if err := yaml.Unmarshal([]byte(text), &named); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, named.Workdir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{named.Train.Data, named.Local.Prices, named.Local.Catalog} {
		if file == "" {
			continue
		}
		path := filepath.Join(dir, strings.ReplaceAll(file, "${DATA}", "data"))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job, err := parse(filepath.Join(dir, "job.yaml"), []byte(text), noEnvironment)
	if err != nil {
		t.Errorf("%s: an example does not load: %v\n%s", name, err, text)
		return
	}
	mustRoundTrip(t, job)
}

// TestExamplesInMessages checks that the examples in messages name a field, and that their values are valid.
func TestExamplesInMessages(t *testing.T) {
	for key, text := range examples {
		name := key[strings.LastIndexByte(key, '.')+1:]
		if !strings.HasSuffix(name, "[]") && !strings.HasPrefix(text, name+":") {
			t.Errorf("example of %s is %q", key, text)
		}
		known := false
		for _, field := range Fields() {
			known = known || field == strings.TrimSuffix(key, "[]") || strings.HasSuffix(field, "."+key)
		}
		if !known {
			t.Errorf("%s is no field", key)
		}
	}
}

// TestEveryFieldHasAName: each field of each struct has a yaml name, except the block, whose name is its provider's.
func TestEveryFieldHasAName(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Job](), reflect.TypeFor[Resources](), reflect.TypeFor[Machine](), reflect.TypeFor[Reliable](),
		reflect.TypeFor[Train](), reflect.TypeFor[Stages](), reflect.TypeFor[Checkpoint](), reflect.TypeFor[UserProgram](),
		reflect.TypeFor[Secret](), reflect.TypeFor[State](), reflect.TypeFor[Progress](), reflect.TypeFor[Local](), reflect.TypeFor[Action](),
	} {
		for i := range typ.NumField() {
			if f := typ.Field(i); f.IsExported() && f.Tag.Get("yaml") == "" && f.Name != "Block" && !f.Anonymous {
				t.Errorf("%s.%s has no yaml name", typ.Name(), f.Name)
			}
		}
	}
}

// FuzzLoad: whatever the text, the result is a job that prints and loads again, or faults with positions.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good.yaml", "../examples/*.yaml", "../examples/programs/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: no job files: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Add([]byte("name: &a x\nenv: &b {A: *a, B: *a}\ncloud: none\ntrain: {app: mf, data: testdata/data/ratings.csv, clocks: 1, params: {x: *b, y: [*b, *b]}}\n"))
	f.Add([]byte("name: bomb\nenv: {a: &a [x, x, x, x], b: &b [*a, *a, *a, *a], c: &c [*b, *b, *b, *b], d: &d [*c, *c, *c, *c]}\ntrain: {params: *d}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var job *Job
		var err error
		fuzzing.AtMost(t, len(text), 16<<10, func() { job, err = parse("testdata/fuzz.yaml", text, noEnvironment) })
		_, _ = parseFor("testdata/fuzz.yaml", text, noEnvironment, Overrides{}, &Foreign{Allow: []string{"https://ok.example/eu"}})
		if err == nil {
			mustRoundTrip(t, job)
			return
		}
		faults, ok := errors.AsType[Faults](err)
		if !ok || len(faults) == 0 {
			t.Fatalf("error is %T: %v", err, err)
		}
		for _, fault := range faults {
			if fault.Instead == "" || fault.Line < 0 {
				t.Fatalf("fault without advice or place: %+v", fault)
			}
		}
	})
}

func TestConsistency(t *testing.T) {
	for written, want := range map[string]Train{
		"":                                {Consistency: BSP, Deterministic: true},
		"consistency: bsp":                {Consistency: BSP, Deterministic: true},
		"staleness: 3":                    {Consistency: SSP, Staleness: 3},
		"consistency: ssp":                {Consistency: SSP, Staleness: 1},
		"consistency: ssp, staleness: 0":  {Consistency: BSP, Deterministic: true},
		"consistency: ssp, staleness: 9":  {Consistency: SSP, Staleness: 9},
		"consistency: asp":                {Consistency: ASP},
		"consistency: asp, staleness: 0":  {Consistency: ASP},
		"deterministic: false":            {Consistency: BSP},
		"staleness: 0":                    {Consistency: BSP, Deterministic: true},
		"staleness: 1, consistency: ssp":  {Consistency: SSP, Staleness: 1},
		"consistency: bsp, staleness: 0 ": {Consistency: BSP, Deterministic: true},
	} {
		text := "name: a\ncloud: none\ntrain: {app: mf, data: testdata/data/ratings.csv, clocks: 1, " + written + "}\n"
		job, err := parse("job.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Errorf("%q: %v", written, err)
			continue
		}
		got := Train{Consistency: job.Train.Consistency, Staleness: job.Train.Staleness, Deterministic: job.Train.Deterministic}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", written, diff)
		}
		mustRoundTrip(t, job)
	}
}

// A program's job, printed with its defaults, is the same job again.
func TestProgramPrintsAndLoads(t *testing.T) {
	dir := t.TempDir()
	text := `name: own
cloud: local
resources: {count: 2, any_of: [{type: c3.xlarge}]}
workdir: .
setup: |
  pip install -r requirements.txt
run: |
  python3 train.py
  echo done
envs: {EPOCHS: 3, FAST: true, RATE: 0.1}
secrets: {HF_TOKEN: {}, KEY: {file: key}}
state: {dir: ckpt/}
progress: {line: 'step (\d+)', of: 1000}
hours: 1.5
sweep: {envs: {LR: log 1e-4..1, WIDTH: 2..8, KIND: [a, b]}, samples: 24, feedback: [{at: 10, keep: 8}]}
retries: 2
ports: [8080]
image: docker:team/train:7
checkpoint: {to: store}
local: {prices: p.csv, catalog: c.csv, start: 2014-03-11T12:00:00Z}
`
	for _, name := range []string{"p.csv", "c.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := parse(filepath.Join(dir, "job.yaml"), []byte(text), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if first.Policy != "checkpoint" || first.State.Every != 10*time.Minute || first.State.Dir != "ckpt" || first.Envs["EPOCHS"] != "3" || first.Envs["FAST"] != "true" ||
		first.Secrets["HF_TOKEN"].Env != "HF_TOKEN" || first.Secrets["KEY"].File != filepath.Join(dir, "key") || !first.Restarts() {
		t.Errorf("%+v", first.UserProgram)
	}
	second, err := parse("elsewhere.yaml", first.Resolved(), noEnvironment)
	if err != nil {
		t.Fatalf("%v\n%s", err, first.Resolved())
	}
	if diff := cmp.Diff(string(first.Resolved()), string(second.Resolved())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(first.UserProgram, second.UserProgram); diff != "" {
		t.Error(diff)
	}
	lookup := func(name string) (string, bool) { return map[string]string{"HF_TOKEN": "a"}[name], name == "HF_TOKEN" }
	if _, err := first.ReadSecrets(lookup); err == nil || !strings.Contains(err.Error(), "secrets.KEY") || strings.Contains(err.Error(), "secrets.HF_TOKEN") {
		t.Errorf("without its file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := first.ReadSecrets(lookup); err != nil || got["HF_TOKEN"] != "a" || got["KEY"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
}
