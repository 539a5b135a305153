package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/docstest"
	"github.com/tierml/tierml/internal/raced"
)

// Shell blocks of the pages are typed into bash, all blocks of a page one after another, with the program as a user has it.
// testdata/sessions/PAGE.sh prepares what a page assumes, and writes small programs that stand in for what cannot be here (an account,
// another host). In it
//
//	#: NEEDS a b        programs besides bash; without them the session is skipped, in CI it fails
//	#: TYPE x => y      y is typed where the page has x; the page must have it
//	#: TABLES N         after the blocks, what the cells in column N of the page's tables (default 1) have in code style and calls the program
//	#: ACCOUNT ec2|gce  machines run their first script (bash guest); $PROGRAM, $SUM, $BUCKET and $TUNNEL are the program's address and SHA-256,
//	                    a folder in a bucket, and what plays the tunnel to a machine: ID LOCAL-PORT PORT
//	#: AFTER            what follows is run after the page's blocks: it checks their result
func TestSessions(t *testing.T) {
	if raced.Detector {
		t.Skip("processes of the race detector's program are too slow, and the other end-to-end tests have what is to be raced")
	}
	root := os.DirFS("../..")
	pages, err := docstest.ExecutedBy(root, "TestSessions")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 10 {
		t.Fatalf("only %d pages have sessions", len(pages))
	}
	for page, blocks := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			typeSession(t, page, blocks)
		})
	}
}

// session is testdata/sessions/PAGE.sh.
type session struct {
	needs         []string
	instead       [][2]string
	before, after string
	tables        int    // the column; 0 = none
	account       string // the provider's name; "" = none
}

func readSession(t *testing.T, page string) (s session) {
	t.Helper()
	name := filepath.Join("testdata", "sessions", strings.NewReplacer("/", "-", ".md", ".sh").Replace(page))
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	into := &s.before
	for line := range strings.Lines(string(text)) {
		order, isOrder := strings.CutPrefix(line, "#: ")
		what, argument, _ := strings.Cut(strings.TrimSuffix(order, "\n"), " ")
		switch {
		case !isOrder:
			*into += line
		case what == "NEEDS":
			s.needs = append(s.needs, strings.Fields(argument)...)
		case what == "TYPE":
			from, to, ok := strings.Cut(argument, " => ")
			if !ok {
				t.Fatalf("%s: want TYPE x => y: %s", name, line)
			}
			s.instead = append(s.instead, [2]string{from, to})
		case what == "TABLES":
			if s.tables = 1; argument != "" {
				var err error
				if s.tables, err = strconv.Atoi(argument); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		case what == "ACCOUNT":
			s.account = argument
		case what == "AFTER":
			into = &s.after
		default:
			t.Fatalf("%s: what is %s?", name, line)
		}
	}
	return s
}

func typeSession(t *testing.T, page string, blocks []docstest.Block) {
	s := readSession(t, page)
	for _, program := range s.needs {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%v: make sessions installs it", err)
			}
			t.Skipf("%v: make sessions installs it", err)
		}
	}
	program := builtBinary(t)
	place := newSite(t)
	script := s.before
	for _, b := range blocks {
		text := b.Text
		if b.Language == "python" {
			text = "python <<END_OF_PYTHON\n" + text + "END_OF_PYTHON\n"
		}
		script += fmt.Sprintf("\necho '### %s' >&2\n%s", b, text)
	}
	if s.tables > 0 {
		script += "\necho '### tables' >&2\n" + strings.Join(callsInTables(t, page, s.tables), "\n") + "\n"
	}
	for _, in := range s.instead {
		if !strings.Contains(script[len(s.before):], in[0]) {
			t.Fatalf("%s does not say %q any more", page, in[0])
		}
		script = script[:len(s.before)] + strings.ReplaceAll(script[len(s.before):], in[0], in[1])
	}
	script += "\necho '### after' >&2\n" + s.after
	prepareSession(t, place, program)
	place.write("session.sh", script)

	cmd := exec.Command("bash", "-c", "source ./prelude.sh; source ./session.sh; finish")
	cmd.Env = []string{"HOME=" + place.dir, "PATH=" + place.path("bin") + ":" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "NO_COLOR=1",
		"TMPDIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + place.path(".config"), "LANG=C.UTF-8", "BASH_ENV="}
	if s.account != "" {
		cmd.Env = append(cmd.Env, playAccount(t, place, s.account)...)
	}
	cmd.Dir = place.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tooLong := time.AfterFunc(3*patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer tooLong.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", page, err, tail(out.String(), 6000))
	}
	if testing.Verbose() {
		t.Log(tail(out.String(), 3000))
	}
}

// playAccount makes what machines and laptops need from a provider's account, and returns the environment that points to it.
func playAccount(t *testing.T, s *site, provider string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.killBelow)
	s.noRules()
	tunnel := "TUNNEL=" + self + " play-tunnel"
	switch provider {
	case "ec2":
		s.write("guest", guest)
		a := s.account()
		return []string{"PROGRAM=" + a.program + "/tierml", "SUM=" + a.sum, "BUCKET=" + a.at("checkpoints"), tunnel}
	case "gce":
		program, sum := wrappedProgram(t)
		store := googleStore(t, program)
		s.write("guest", gceGuest(store))
		return []string{"PROGRAM=gs://bucket/program/tierml-1", "SUM=" + sum, "BUCKET=gs://bucket/checkpoints", "STORAGE_EMULATOR_HOST=" + store, tunnel}
	}
	t.Fatalf("no account of %q can be played", provider)
	return nil
}

// prepareSession makes a folder like a clone of the repository: examples, with a demo that takes seconds.
func prepareSession(t *testing.T, s *site, program string) {
	t.Helper()
	for _, dir := range []string{"bin", "examples/data"} {
		if err := os.MkdirAll(s.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(program, s.path("bin", "tierml")); err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Glob("../../examples/data/*")
	if err != nil || len(data) == 0 {
		t.Fatalf("no data: %v", err)
	}
	for _, file := range append(data, "../../examples/programs") {
		below, err := filepath.Rel("../..", file)
		if err == nil {
			file, err = filepath.Abs(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, s.path(below)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"demo.yaml": "examples/demo.yaml", "prelude.sh": "prelude.sh"} {
		text, err := os.ReadFile(filepath.Join("testdata", "sessions", from))
		if err != nil {
			t.Fatal(err)
		}
		s.write(to, string(text))
	}
	s.write("examples/data/small.csv", ratings())
}

var callInCode = regexp.MustCompile("`(tierml [^`]*)`")

// callsInTables returns the program's calls in a column of a page's tables.
func callsInTables(t *testing.T, page string, column int) (calls []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		row, isRow := strings.CutPrefix(line, "| ")
		cells := strings.Split(row, " |")
		if !isRow || len(cells) <= column {
			continue
		}
		for _, m := range callInCode.FindAllStringSubmatch(cells[column-1], -1) {
			calls = append(calls, m[1])
		}
	}
	if len(calls) == 0 {
		t.Fatalf("%s has no calls in tables", page)
	}
	return calls
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }
