package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// playedTools stand in for the command lines of providers and the machine behind them: they run commands here, without the machine's
// script.
var playedTools = map[string]string{
	"aws": `case $* in *portNumber*) echo "$*" >"$CALLED"; exit ;; esac
for last; do :; done
printf '%s ' "${@:1:$# - 1}" >"$CALLED"
line=${last#'{"command":["'}; line=${line%'"]}'}; line=${line//\\\"/\"}; line=${line//\\\\/\\}
printf '\nStarting session with SessionId: ann-0\n'
bash -c "$line"
printf '\n\nExiting session with sessionId: ann-0.\n'`,
	"session-manager-plugin": `exit 1`,
	"gcloud": `printf '%s ' "$@" >"$CALLED"
case $* in *ExitOnForwardFailure*) exit ;; esac
while [ "$1" != --command ]; do shift; done
bash -c "$2"`,
	"sudo": `[ "$1 $2 $3 $4" = "bash -c exec bash /var/lib/tierml/.tierml/*/enter \"\$@\" enter" ] || { echo "sudo $*" >&2; exit 99; }
exec "${@:5}"`,
}

// Machines of a real cloud are entered by the provider's command line: arguments arrive unchanged, and the exit code comes back, even with
// Session Manager, which does not return it.
func TestExecElsewhere(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	for name, text := range playedTools {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/usr/bin/env bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for cloud, want := range map[string]string{
		"ec2": "ssm start-session --region us-west-2 --target i-1 --document-name AWS-StartInteractiveCommand --parameters ",
		"gce": "compute ssh i-1 --project my-project --zone us-west-2a --tunnel-through-iap --quiet --command sudo bash -c ",
	} {
		dir := t.TempDir()
		runElsewhere(t, dir, cloud)
		call := func(path string, args ...string) (string, int) {
			t.Helper()
			cmd := exec.Command(builtBinary(t), args...)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + path, "HOME=" + dir, "CALLED=" + filepath.Join(dir, "called")}
			var said strings.Builder
			cmd.Stdout, cmd.Stderr = &said, &said
			err := cmd.Run()
			if ended, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
				t.Fatal(err)
			} else if ok {
				return said.String(), ended.ExitCode()
			}
			return said.String(), 0
		}
		with := tools + ":" + os.Getenv("PATH")
		out, code := call(with, "exec", "own-1", "--", "bash", "-c", `printf '%s\n' "$@" >&1; exit 7`, "it", `a "b" c`, `it's $HOME`, `c\d`)
		if out != "a \"b\" c\nit's $HOME\nc\\d\n" || code != 7 {
			t.Errorf("%s: exit code %d, %q", cloud, code, out)
		}
		called, err := os.ReadFile(filepath.Join(dir, "called"))
		if err != nil || !strings.HasPrefix(string(called), want) {
			t.Errorf("%s was entered by %q, %v", cloud, called, err)
		}
		if out, code := call(with, "exec", "own-1", "--machine", "i-1", "--", "true"); out != "" || code != 0 {
			t.Errorf("%s: exit code %d, %q", cloud, code, out)
		}
		for words, ends := range map[string]map[string]string{
			"forward own-1":                   {"ec2": "--parameters portNumber=6006,localPortNumber=6006\n", "gce": "-L 127.0.0.1:6006:localhost:6006 "},
			"forward own-1 8080 --local 9090": {"ec2": "--parameters portNumber=8080,localPortNumber=9090\n", "gce": "-L 127.0.0.1:9090:localhost:8080 "},
		} {
			out, code := call(with, strings.Fields(words)...)
			if called, err := os.ReadFile(filepath.Join(dir, "called")); err != nil || code != 0 || !strings.HasSuffix(string(called), ends[cloud]) {
				t.Errorf("%s: %s: exit code %d, %q, %q, %v", cloud, words, code, out, called, err)
			}
		}
		// Without the tools the command is printed, with where to get them.
		out, code = call(filepath.Dir(builtBinary(t)), "ssh", "own-1")
		tool := strings.Fields(want)[0]
		if code != cli.ExitFailed || !strings.Contains(out, tool) || !strings.Contains(out, "is not here; install") || !strings.Contains(out, `/*/enter`) {
			t.Errorf("%s without its tools: exit code %d, %q", cloud, code, out)
		}
		for _, c := range []struct{ words, want string }{
			{"exec own-1 --rank 1 -- ls", "has no rank-1"},
			{"exec own-1 --machine i-9 -- ls", "has no machine i-9; it has i-1 (rank-0)"},
			{"exec own-1 --machine i-0 -- ls", "machine i-0 of runs/own-1 is gone (evicted); it has i-1 (rank-0)"},
			{"exec own-1", "name a run and a command"},
			{"forward own-1 0", "0 is not a port"},
		} {
			if out, code := call(with, strings.Fields(c.words)...); code != cli.ExitUsage || !strings.Contains(out, c.want) {
				t.Errorf("%s: exit code %d, %q", c.words, code, out)
			}
		}
	}
}

// runElsewhere makes a run of a program that is in progress: one machine was evicted, another one runs it.
func runElsewhere(t *testing.T, dir, cloud string) {
	t.Helper()
	at := filepath.Join(dir, rundir.Root, "own-1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(at, 0o755))
	must(os.WriteFile(filepath.Join(at, rundir.JobFile), []byte("name: own\ncloud: "+cloud+"\nworkdir: /nowhere\nports: [6006]\n"+cloud+": {region: us-west-2, project: my-project}\n"), 0o600))
	must(os.WriteFile(filepath.Join(at, "state.json"), []byte("{}"), 0o600))
	lines, err := journal.Create(filepath.Join(at, rundir.JournalFile), func(journal.Entry) {})
	must(err)
	details, err := journal.Pack(journal.StartDetails{App: "program", Program: &journal.ProgramDetails{}})
	must(err)
	now := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []journal.Entry{
		{Kind: journal.Start, Details: details},
		{Kind: journal.Launch, Instance: "i-0", Pool: cloud + "/us-west-2/us-west-2b/c5.large/spot", Launched: &now, Token: "a", Tier: "transient"},
		{Kind: journal.Evicted, Instance: "i-0", Pool: cloud + "/us-west-2/us-west-2b/c5.large/spot", Ended: &now, Why: "Server.SpotInstanceTermination"},
		{Kind: journal.Launch, Instance: "i-1", Pool: cloud + "/us-west-2/us-west-2a/c5.large/spot", Launched: &now, Token: "b", Tier: "transient"},
		{Kind: journal.ProgramStart, OfProgram: journal.OfProgram{Program: "rank-0"}, Instance: "i-1", Generation: 2},
	} {
		e.T = now
		must(lines.Write(e))
	}
	must(lines.Close())
	release, err := rundir.HoldUntil(at)
	must(err)
	t.Cleanup(release)
}
