package archtest

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository is the rule; everything below tests the rule.
func TestRepository(t *testing.T) {
	root := os.DirFS("../..")
	if _, err := root.Open("go.mod"); err != nil {
		t.Fatalf("not run from internal/archtest: %v", err)
	}
	violations, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// file makes a commented Go file with imports and a body.
func file(dir, body string, imports ...string) string {
	name := path.Base(dir)
	var b strings.Builder
	fmt.Fprintf(&b, "// Package %s is for tests.\npackage %s\n\n", name, name)
	for _, path := range imports {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	return b.String() + body + "\n"
}

func TestBreachesAreFound(t *testing.T) {
	const ec2 = "github.com/aws/aws-sdk-go-v2/service/ec2"
	for name, c := range map[string]struct {
		files map[string]string
		want  string // part of the only violation
	}{
		"market imports ours": {map[string]string{"market/a.go": file("market", "", Module+"/bidding")},
			"market/a.go:4: market imports bidding; it is a root"},
		"bidding buys":        {map[string]string{"bidding/a.go": file("bidding", "", Module+"/provisioner")}, "never buys"},
		"tiers knows markets": {map[string]string{"tiers/a.go": file("tiers", "", Module+"/market")}, "chains meet in elasticity"},
		"training knows pools": {map[string]string{"elasticity/training/a.go": file("elasticity/training", "", Module+"/market")},
			"must not know pools, prices and providers"},
		"training knows the fleet": {map[string]string{"elasticity/training/a.go": file("elasticity/training", "", Module+"/elasticity/fleet")},
			"must not know pools, prices and providers"},
		"the fleet knows layouts": {map[string]string{"elasticity/fleet/a.go": file("elasticity/fleet", "", Module+"/tiers")},
			"must not know layouts, clocks and cuts"},
		"the fleet knows clocks": {map[string]string{"elasticity/fleet/a.go": file("elasticity/fleet", "", Module+"/ps")},
			"must not know layouts, clocks and cuts"},
		"below elasticity": {map[string]string{"tiers/node/a.go": file("tiers/node", "", Module+"/elasticity")},
			"nobody below elasticity knows elasticity"},
		"command imported": {map[string]string{"watch/a.go": file("watch", "", Module+"/cmd/tierml")}, "nothing imports a command"},
		"fake cloud knows the adapter": {map[string]string{"fakecloud/server/a.go": file("fakecloud/server", "", Module+"/providers/ec2/api")},
			"must not share a misunderstanding"},
		"fake cloud knows the contract": {map[string]string{"fakecloud/a.go": file("fakecloud", "", Module+"/provisioner")},
			"must not share a misunderstanding"},
		"fake cloud uses the SDK": {map[string]string{"fakecloud/a.go": file("fakecloud", "", ec2+"/types")}, "minutes and gigabytes"},
		"sim starts a shell":      {map[string]string{"sim/a.go": file("sim", "", Module+"/elasticity/runner")}, "never a shell"},
		"a run asks sim":          {map[string]string{"jobrun/a.go": file("jobrun", "", Module+"/sim/sweep")}, "must not rest on a simulation"},
		"config reaches stores": {map[string]string{
			"config/a.go":            file("config", "", Module+"/program/pack"),
			"program/pack/a.go":      file("program/pack", "", Module+"/internal/blob", Module+"/internal/progress"),
			"program/pack/a_test.go": file("program/pack", "", Module+"/internal/blob"),
			"internal/blob/a.go":     file("internal/blob", ""),
		}, "program/pack/a.go:4: config -> program/pack -> internal/blob"},
		"SDK in two packages": {map[string]string{
			"providers/ec2/api/a.go":   file("providers/ec2/api", "", ec2),
			"providers/ec2/api/x/a.go": file("providers/ec2/api/x", "", ec2),
		}, "as providers/ec2/api does already"},
		"SDK elsewhere":     {map[string]string{"cost/blob/a.go": file("cost/blob", "", "github.com/aws/smithy-go")}, "adapters only"},
		"cobra in packages": {map[string]string{"watch/a.go": file("watch", "", "github.com/spf13/cobra")}, "commands are thin"},
		"goroutine":         {map[string]string{"ps/a.go": file("ps", "func f() { go f() }")}, "ps/a.go:4: starts a goroutine"},
		"select":            {map[string]string{"ps/a.go": file("ps", "func f(c chan int) { select { case <-c: } }")}, "waits on channels"},
		"goroutine unwatched": {map[string]string{
			"Makefile":        "RACE ?= ./watch/... \\\n  ./apps/input\n",
			"watch/tui/a.go":  file("watch/tui", "func f() { go f() }"),
			"apps/input/a.go": file("apps/input", "func f(w sync.WaitGroup) { w.Go(f) }", "sync"),
			"apps/lda/a.go":   file("apps/lda", "func f(w sync.WaitGroup) { w.Go(f) }", "sync"),
		}, "apps/lda/a.go:5: lda starts a goroutine"},
		"clock": {map[string]string{"market/a.go": file("market", "var now = time.Now", "time")}, "uses time.Now"},
		"sleep": {map[string]string{"tiers/a.go": file("tiers", "func f() { time.Sleep(1) }", "time")}, "uses time.Sleep"},
		"clock renamed": {map[string]string{"market/a.go": "// Package market is for tests.\npackage market\n\nimport clock \"time\"\n\nvar now = clock.Now\n"},
			"uses time.Now"},
		"global randomness": {map[string]string{"bidding/a.go": file("bidding", "func f() int { return rand.IntN(2) }", "math/rand/v2")},
			"uses the global rand.IntN"},
		"old randomness": {map[string]string{"bidding/a.go": file("bidding", "", "math/rand")}, "differ from run to run"},
		"files":          {map[string]string{"market/a.go": file("market", "", "os")}, "touch files"},
		"processes":      {map[string]string{"market/a.go": file("market", "", "os/exec")}, "touch files"},
		"network":        {map[string]string{"provisioner/a.go": file("provisioner", "", "net/http")}, "speak to networks"},
		"no comment": {map[string]string{"watch/a.go": "package watch\n", "watch/b_test.go": "// Package watch is a test.\npackage watch\n"},
			"watch/a.go: its package has no comment"},
		"long file":    {map[string]string{"watch/a.go": file("watch", strings.Repeat("\n", 600))}, "has 604 lines"},
		"machine path": {map[string]string{"docs/a.md": "see\n/ho" + "me/ada/x\n"}, "docs/a.md:2: names a path of one machine"},
		"machine path in testdata": {map[string]string{"watch/testdata/a.golden": "file:///wo" + "rk/main\n"},
			"watch/testdata/a.golden:1: names a path"},
	} {
		t.Run(name, func(t *testing.T) {
			violations := check(t, c.files)
			if len(violations) != 1 || !strings.Contains(violations[0].String(), c.want) {
				t.Errorf("violations %v, want one with %q", violations, c.want)
			}
		})
	}
}

func check(t *testing.T, files map[string]string) []Violation {
	t.Helper()
	repository := fstest.MapFS{}
	for name, text := range files {
		repository[name] = &fstest.MapFile{Data: []byte(text)}
	}
	violations, err := Check(repository)
	if err != nil {
		t.Fatal(err)
	}
	return violations
}

func TestWhatIsAllowed(t *testing.T) {
	const ec2 = "github.com/aws/aws-sdk-go-v2/service/ec2"
	violations := check(t, map[string]string{
		"market/a.go":             file("market", "var zero time.Time", "time"),
		"market/a_test.go":        file("market", "func f() { go f(); time.Sleep(1); _ = os.Args }", "time", "os", Module+"/bidding"),
		"market/trace/a.go":       file("market/trace", "", "os", Module+"/market"),
		"bidding/a.go":            file("bidding", "", Module+"/market", Module+"/internal/clock"),
		"elasticity/a.go":         file("elasticity", "", Module+"/bidding", Module+"/tiers", Module+"/provisioner"),
		"internal/runs/a_test.go": file("internal/runs", "", Module+"/sim"),
		"elasticity/runner/a.go":  file("elasticity/runner", "func f() { go f() }", Module+"/elasticity"),
		"providers/ec2/api/a.go":  file("providers/ec2/api", "", ec2, ec2+"/types", "github.com/aws/smithy-go"),
		"fakecloud/a.go":          file("fakecloud", "", "net/http", Module+"/market"),
		"fakecloud/a_test.go":     file("fakecloud", "", Module+"/market/trace"),
		"ps/a.go":                 file("ps", "var r = rand.New(rand.NewPCG(1, 2))", "math/rand/v2"),
		"cmd/tierml/a.go":         file("main", "func main() {}", "github.com/spf13/cobra", Module+"/config"),
		"watch/pb/a.pb.go":        "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage pb\n" + strings.Repeat("\n", 700),
		"node_modules/x/a.go":     "package x\n",
		".cache/a.go":             "package x\n",
		"runs/demo-1/report.json": "/ho" + "me/ada\n",
		"docs/a.md":               "runs/work" + "/x and lib/ho" + "me/x are no paths of a machine\n",
	})
	for _, v := range violations {
		t.Error(v)
	}
}

func TestBrokenSourceIsAnError(t *testing.T) {
	if _, err := Check(fstest.MapFS{"watch/a.go": {Data: []byte("not go")}}); err == nil {
		t.Error("no error")
	}
}
