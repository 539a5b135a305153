package docstest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPages is the rule; the others test the rule.
func TestPages(t *testing.T) {
	root := os.DirFS("../..")
	if _, err := root.Open("go.mod"); err != nil {
		t.Fatalf("not run from internal/docstest: %v", err)
	}
	faults, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// small returns a repository with something of every kind.
func small(page string) fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"docs/a.md":         file(page),
		"docs/b.md":         file("# Two words, really\n\n```sh\n# no heading\n```\n"),
		"Makefile":          file("VERSION := 1\nbuild: x\n\ttrue\n"),
		"lab/Makefile":      file("bench:\n\ttrue\n"),
		"x/x.go":            file("package x\n\ntype T struct{ F int }\n\nfunc (t *T) M() {}\n\nconst C = 1\n\ntype I interface{ N() }\n"),
		"x/x_test.go":       file("package x\n\nfunc TestX() {}\n"),
		"cmd/tierml/run.go": file("package main\n\nvar c = &Command{Use: \"run JOB\"}\n\nfunc f() { c.Flags().BoolVarP(&b, \"yes\", \"y\", false, \"\") }\n"),
		"runs/a/b.md":       file("[gone](gone.md)\n"),
		"docs/pic.svg":      file("<svg/>"),
	}
}

func TestFaultsAreFound(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"dead link":                {"see [b](c.md)", "docs/a.md:1: the link to c.md leads nowhere"},
		"dead heading":             {"see [b](b.md#three)", `docs/b.md has no heading "three"`},
		"heading in code":          {"see [b](b.md#no-heading)", "has no heading"},
		"make target":              {"type `make bild`", "no make target bild"},
		"target of another folder": {"type `make -C lab build`", "no make target build in lab/Makefile"},
		"make in a block":          {"```sh\n$ make bild  # soon\n```", "docs/a.md:2: there is no make target bild"},
		"command":                  {"type `tierml rum job.yaml`", "no command tierml rum"},
		"flag":                     {"type `bin/tierml run --no x`", "no flag --no"},
		"lone flag":                {"with `--no x`", "no flag --no"},
		"flag after another":       {"with `--yes --no`", "no flag --no"},
		"command after vars":       {"```sh\nA=b tierml rum\n```", "no command tierml rum"},
		"identifier":               {"a `x.U` is", "package x has no U"},
		"member":                   {"a `x.T.G` is", "package x has no T.G"},
		"test":                     {"`TestY` proves it", "no test TestY"},
		"file":                     {"in `x/y.go`", "no file x/y.go"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := Check(small(c.page))
			if err != nil || len(faults) != 1 || !strings.Contains(faults[0].String(), c.want) {
				t.Errorf("faults %v, %v; want one with %q", faults, err, c.want)
			}
		})
	}
}

func TestWhatIsAllowed(t *testing.T) {
	page := "[b](b.md) [w](b.md#two-words-really) [up](../x/x.go) [pic](pic.svg) [web](https://example.org/none.md)\n" +
		"`make build` `tierml run -y JOB` `tierml run --yes job.yaml` `tierml --version` `--yes` `make build --no` `make -C lab bench` `x.T` `x.T.F` `x.T.M` `x.I.N()` `x.C` `TestX`\n" +
		"`x/x.go` `b.md` `time.Nothing` `[b](gone.md)` make sense, tierml then `runs/demo-1/job.yaml`\n" +
		"```text\nmake nothing\n```\n"
	faults, err := Check(small(page))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}
