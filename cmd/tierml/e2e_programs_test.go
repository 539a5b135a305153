package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/watch/status"
)

// counting is a program whose state is the number that it has reached. What it prints and what it has saved are the same step, whenever
// SIGTERM comes. With GATE it does not count beyond the number in that file (gate): what a test does happens before the program ends,
// however busy this machine is.
const counting = `
stop=
trap 'stop=1' TERM
at=$(cat "$TIERML_STATE/at" 2>/dev/null || echo 0)
while [ -z "$stop" ] && [ "$at" -lt "$UNTIL" ]; do
  if [ -n "$GATE" ]; then
    upto=0
    read -r upto <"$GATE" || true
    [ "$at" -lt "${upto:-0}" ] || { sleep 0.05; continue; }
  fi
  at=$((at + 1))
  echo "$at" >"$TIERML_STATE/at.tmp"
  while [ -e "$TIERML_STATE/at.tmp" ]; do mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at"; done # SIGTERM ends mv, too
  echo "step $at of $UNTIL"
  sleep 0.05
done
[ -z "$stop" ] || { echo stopped; exit 143; }
`

// programJob writes a job with a counting program. At 60 times the clock's speed its state is mirrored every half second.
func (s *site) programJob(fields ...string) string {
	s.t.Helper()
	if err := os.MkdirAll(s.path("work"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.write("work/count.sh", counting)
	text := "name: own\ncloud: local\nworkdir: work\nstate: {dir: ckpt, every: 30s}\nprogress: {line: 'step (\\d+)', of: 160}\nhours: 0.1\n" +
		"orphan_after: 1500ms\n" + strings.Join(fields, "\n") + `
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  speed: 60
  notice: 4s
  boot: 100ms
`
	s.write("own.yaml", text)
	return "own.yaml"
}

// gate lets counting programs count up to a step. It returns their variable for it.
func (s *site) gate(step int) string {
	s.t.Helper()
	s.write("gate", strconv.Itoa(step)+"\n")
	return "GATE: '" + s.path("gate") + "'"
}

const oneMachine = "resources: {count: 1, any_of: [{type: c3.large, max_price: 0.10}]}"

// programLines returns a journal's lines of a kind about one program; empty = about all.
func programLines(entries []journal.Entry, kind journal.Kind, program string) (out []journal.Entry) {
	for _, e := range entries {
		if e.Kind == kind && (program == "" || e.Program == program) {
			out = append(out, e)
		}
	}
	return out
}

func reached(step int64) func([]journal.Entry) bool {
	return func(entries []journal.Entry) bool {
		lines := programLines(entries, journal.ProgramStep, "")
		return len(lines) > 0 && lines[len(lines)-1].Clock >= step
	}
}

var stepLine = regexp.MustCompile(`(?m)^step (\d+) of`)

// counted returns the first and the last step that an attempt printed.
func (s *site) counted(run, log string) (first, last int) {
	s.t.Helper()
	found := stepLine.FindAllStringSubmatch(string(s.read(run, filepath.Join(rundir.LogsDir, log))), -1)
	if len(found) == 0 {
		s.t.Fatalf("%s has no step", log)
	}
	first, _ = strconv.Atoi(found[0][1])
	last, _ = strconv.Atoi(found[len(found)-1][1])
	return first, last
}

// A user's program on real processes: one of its machines is evicted with a notice, another is killed. After the notice no step is
// repeated, after the kill only those since the last save. Its secret is in no file of the run.
func TestProgramThroughEvictions(t *testing.T) {
	t.Parallel()
	const canary = "hush-7d865e959b2466"
	s := newSite(t)
	job := s.programJob(oneMachine, "run: |\n  test ${#KEY} = "+fmt.Sprint(len(canary))+"\n  bash count.sh", "setup: echo ready >setup-done",
		"envs: {UNTIL: 160, "+s.gate(80)+"}", "secrets: {KEY: {env: THE_KEY}}")
	s.replace(job, "notice: 4s", "notice: 12s") // enough for slow processes, too
	if out := s.start("run", "-y", job).wait(cli.ExitUsage); !strings.Contains(out, "own.yaml:") || !strings.Contains(out, "export THE_KEY=") {
		t.Errorf("without its secret: %s", out)
	}
	cmd := exec.Command(builtBinary(t), "run", "-y", job)
	cmd.Env = append(os.Environ(), "THE_KEY="+canary)
	run := s.startCommand(cmd)
	s.until(run, "own-1", "some steps", reached(10))
	s.inNoCommandLine(canary)
	s.inNoUserData("own-1", canary)
	if out := s.start("exec", "own-1", "--", "bash", "-c", `cat setup-done "$TIERML_STATE/at"; echo "${KEY-no secret}"; exit 5`).wait(5); !strings.HasPrefix(out, "ready\n") ||
		!strings.Contains(out, "no secret") {
		t.Errorf("executed: %s", out)
	}
	s.order("own-1", "evict oldest")
	s.gate(150)
	s.until(run, "own-1", "the second attempt", func(e []journal.Entry) bool {
		starts := programLines(e, journal.ProgramStart, "")
		return len(starts) == 2 && len(programLines(e, journal.ProgramSaved, "")) > 2 && reached(starts[1].Clock+5)(e)
	})
	s.until(run, "own-1", "a state of the gate's step", func(e []journal.Entry) bool { // from then on step and state stand still
		saved := programLines(e, journal.ProgramSaved, "")
		return saved[len(saved)-1].Clock == 150
	})
	s.order("own-1", "kill newest")
	s.gate(160)
	printed := run.wait(cli.ExitDone)
	s.nothingRuns()

	entries := s.journal("own-1")
	checkEntries(t, entries)
	ends := programLines(entries, journal.ProgramEnd, "rank-0")
	if got := outcomes(ends); !slices.Equal(got, []string{"stopped", "lost", "finished"}) {
		t.Errorf("its attempts have come to %v", got)
	}
	_, stopped := s.counted("own-1", "rank-0.1.log")
	third, last := s.counted("own-1", "rank-0.3.log")
	starts := programLines(entries, journal.ProgramStart, "rank-0")
	if starts[1].Clock != int64(stopped) || last != 160 { // a killed machine loses the end of its output
		t.Errorf("warned at step %d it went on from step %d; the last one was %d", stopped, starts[1].Clock, last)
	}
	if at := starts[2].Clock; int64(third) < at || int64(third) > at+3 { // a state may be newer than the last step printed
		t.Errorf("killed, it went on with step %d; the saved state was of step %d", third, at)
	}
	s.addsUp("own-1")
	s.inNoFile(canary, "own.yaml")
	for _, words := range []string{"rank-0 is stopped", "rank-0 is lost", "step 160 of 160; 3 attempts", "equals the cloud's own bill", "redone work"} {
		if !strings.Contains(printed, words) {
			t.Errorf("%q is not in what the run prints:\n%s", words, printed)
		}
	}
	if out := s.start("ssh", "own-1").wait(cli.ExitUsage); !strings.Contains(out, "own-1 has ended: its machines are gone") {
		t.Errorf("after the end: %s", out)
	}
	s.start("state", "own-1", "--into", "saved").wait(cli.ExitDone)
	if text, err := os.ReadFile(s.path("saved", "rank-0", "at")); err != nil || string(text) != "160\n" {
		t.Errorf("the state that is left: %q, %v", text, err)
	}
	// The next plan knows this run's duration and the size of its state.
	plan := exec.Command(builtBinary(t), "plan", job)
	plan.Env = cmd.Env
	s.write(job, strings.Replace(string(must(os.ReadFile(s.path(job)))(t)), "hours: 0.1\n", "", 1))
	if out := s.startCommand(plan).wait(cli.ExitDone); !strings.Contains(out, "as measured by own-1") || !strings.Contains(out, "is mirrored every 30s") {
		t.Errorf("the next plan:\n%s", out)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func outcomes(ends []journal.Entry) (out []string) {
	for _, e := range ends {
		out = append(out, e.Outcome)
	}
	return out
}

// addsUp checks that the parts of the bill add up to it.
func (s *site) addsUp(run string) {
	s.t.Helper()
	r := s.report(run)
	var sum market.USD
	hours := 0.0
	for _, row := range r.Waste.Rows() {
		sum += row.USD
		if row.Name != "free" {
			hours += row.Seconds / 3600
		}
	}
	if sum != r.Totals.Total || hours < r.Totals.MachineHours*0.9999 || hours > r.Totals.MachineHours*1.0001 {
		s.t.Errorf("the parts add up to $%s and %v h, the bill is $%s for %v h", sum, hours, r.Totals.Total, r.Totals.MachineHours)
	}
	if r.Waste.Working.Seconds <= 0 || r.Equivalent == nil || r.Equivalent.Work <= 0 {
		s.t.Errorf("no work was done: %+v, %+v", r.Waste, r.Equivalent)
	}
}

func (s *site) inNoFile(canary string, but ...string) {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() || slices.Contains(but, d.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(canary)) {
			s.t.Errorf("the secret is in %s", path)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

func (s *site) inNoCommandLine(canary string) {
	s.t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(canary)) {
			s.t.Errorf("the secret is in the command line %q", text)
		}
	}
}

// inNoUserData checks at the metadata service of each running machine that its user data lacks a secret.
func (s *site) inNoUserData(run, canary string) {
	s.t.Helper()
	state := must(jobrun.ReadState(s.path(rundir.Root, run)))(s.t)
	ask := func(method, url, header, value string) string {
		request := must(http.NewRequest(method, url, nil))(s.t)
		request.Header.Set(header, value)
		response := must(http.DefaultClient.Do(request))(s.t)
		defer response.Body.Close()
		return string(must(io.ReadAll(response.Body))(s.t))
	}
	seen := 0
	for _, i := range s.instances(state.Cloud) {
		if i.Metadata == "" {
			continue
		}
		token := ask(http.MethodPut, i.Metadata+"/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60")
		data := ask(http.MethodGet, i.Metadata+"/latest/user-data", "X-aws-ec2-metadata-token", token)
		if seen++; !strings.Contains(data, `"controller":`) || strings.Contains(data, canary) {
			s.t.Errorf("the user data of %s: %s", i.ID, data)
		}
	}
	if seen == 0 {
		s.t.Error("no machine was asked for its user data")
	}
}

// An array of tasks, trials of a sweep that draws later settings from earlier losses: machines are reclaimed while they work, their tasks are
// reassigned with the same settings, and each is completed once.
func TestArrayOfTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.programJob("resources: {count: 3, any_of: [{type: c3.large, max_price: 0.10}]}", "tasks: 12", "sweep: {envs: {RATE: log 1e-4..1}, samples: 12, search: tpe}",
		`run: '[ $TIERML_TASK -ge 6 ] || unset GATE; bash count.sh && echo $TIERML_TASK of $TIERML_TASKS at $RATE >$TIERML_STATE/result && echo 25 $RATE >$TIERML_PROGRESS_FILE'`,
		"envs: {UNTIL: 25, "+s.gate(5)+"}")
	run := s.start("run", "-y", job)
	s.until(run, "own-1", "the first task", func(e []journal.Entry) bool {
		return slices.Contains(outcomes(programLines(e, journal.ProgramEnd, "")), "finished")
	})
	s.start("stop", "own-1", "--task", "9").wait(cli.ExitDone)
	s.gate(25)
	if out := s.start("stop", "own-1", "--task", "12").wait(cli.ExitFailed); !strings.Contains(out, "its tasks are 0 to 11") {
		t.Errorf("a task too many: %s", out)
	}
	s.order("own-1", "evict oldest")
	s.until(run, "own-1", "more tasks", func(e []journal.Entry) bool { return len(programLines(e, journal.ProgramEnd, "")) >= 5 })
	s.order("own-1", "kill oldest")
	printed := run.wait(cli.ExitDone)
	s.nothingRuns()
	entries := s.journal("own-1")
	checkEntries(t, entries)
	all := outcomes(programLines(entries, journal.ProgramEnd, ""))
	if got := number(all, "finished"); got != 11 || len(all) < 13 || slices.Contains(all, "failed") || number(all, "cancelled") != 1 {
		t.Errorf("%d of 12 are done: %v", got, all)
	}
	if !strings.Contains(printed, "11 of 12 trials done, 1 cancelled, ") || !strings.Contains(printed, "11 of 12 trials are done, 1 cancelled") {
		t.Errorf("the run prints:\n%s", printed)
	}
	s.addsUp("own-1")
	var rows []status.ProgramRow
	s.command(&rows, "state", "own-1", "-o", "json")
	for i, row := range rows {
		if want := map[bool]string{true: "cancelled", false: "finished"}[i == 9]; row.Program != fmt.Sprintf("task-%d", i) || row.Status != want || row.Bytes == 0 && i != 9 {
			t.Errorf("%+v", row)
		}
	}
	settings := s.drawnFromResults("own-1", must(config.Load(s.path(job)))(t).Trials())
	s.start("state", "own-1", "task-7", "task-11", "--into", "saved").wait(cli.ExitDone)
	for _, task := range []int{7, 11} {
		text, err := os.ReadFile(s.path("saved", fmt.Sprintf("task-%d", task), "result"))
		if err != nil || string(text) != fmt.Sprintf("%d of 12 at %s\n", task, settings[task]) {
			t.Errorf("task %d with %s has left %q, %v", task, settings[task], text, err)
		}
	}
}

// drawnFromResults returns the settings of a sweep's trials. It checks that each begins once there are enough results, with the same
// settings at each start, and has them as its loss.
func (s *site) drawnFromResults(run string, sweep *trials.Sweep) (settings map[int]string) {
	s.t.Helper()
	settings = map[int]string{}
	ended := 0
	for _, e := range s.journal(run) {
		switch e.Kind {
		case journal.ProgramEnd:
			if e.Outcome == journal.Finished || e.Outcome == journal.Cancelled {
				ended++
			}
		case journal.ProgramStart:
			var d journal.ProgramStartDetails
			var task int
			fmt.Sscanf(e.Program, "task-%d", &task)
			if err := json.Unmarshal(e.Details, &d); err != nil || settings[task] != "" && settings[task] != d.Settings["RATE"] || !sweep.Ready(task, ended) {
				s.t.Errorf("%s begins with %s after %d are over, had %s: %v", e.Program, e.Details, ended, settings[task], err)
			}
			settings[task] = d.Settings["RATE"]
		}
	}
	for i, drawn := range sweep.Trials() {
		if first := i < sweep.First(); settings[i] != "" && first != (settings[i] == drawn["RATE"]) {
			s.t.Errorf("trial %d has %s; at random it would have %s", i, settings[i], drawn["RATE"])
		}
	}
	for _, trial := range s.report(run).Programs.Trials {
		if trial.Outcome == "done" && (trial.Loss == nil || fmt.Sprint(*trial.Loss) != settings[trial.Task]) {
			s.t.Errorf("%+v", trial)
		}
	}
	return settings
}

// A program that fails by itself is retried as often as the job says, on the same machine; the run reports its last output. A setup that
// fails buys no second machine either.
func TestProgramFailsByItself(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.programJob(oneMachine, "run: echo no such file >&2; exit 7", "retries: 2")
	printed := s.start("run", "-y", job).wait(cli.ExitFailed)
	entries := s.journal("own-1")
	if got := outcomes(programLines(entries, journal.ProgramEnd, "")); !slices.Equal(got, []string{"failed", "failed", "failed"}) || number(kindsOf(entries), "launch") != 1 {
		t.Errorf("%v", got)
	}
	if !strings.Contains(printed, "the program failed 3 times") || !strings.Contains(printed, "exit code 7") || !strings.Contains(printed, "no such file") {
		t.Errorf("the run prints:\n%s", printed)
	}
	s.write("own.yaml", strings.Replace(string(must(os.ReadFile(s.path("own.yaml")))(t)), "run: echo", "setup: echo no network >&2; exit 3\nrun: echo", 1))
	printed = s.start("run", "-y", "own.yaml").wait(cli.ExitFailed)
	if !strings.Contains(printed, "setup failed 3 times: no network") || number(kindsOf(s.journal("own-2")), "launch") != 1 {
		t.Errorf("the run prints:\n%s", printed)
	}
	s.nothingRuns()
}

func number(of []string, word string) (n int) {
	for _, w := range of {
		if w == word {
			n++
		}
	}
	return n
}

func kindsOf(entries []journal.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, string(e.Kind))
	}
	return out
}

// A program continues from its state after its run was stopped. When its controller is killed it keeps running, and the next controller
// adopts it.
func TestProgramIsResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.programJob(oneMachine, "run: bash count.sh", "envs: {UNTIL: 160, "+s.gate(60)+"}")
	s.write(job, strings.Replace(string(must(os.ReadFile(s.path(job)))(t)), "orphan_after: 1500ms", "orphan_after: 5m", 1))
	cloud, endpoint := s.cloud("60", "50000")
	run := s.start("run", "-y", "--endpoint", endpoint, job)
	s.until(run, "own-1", "some steps", reached(8))
	s.start("stop", "own-1").wait(cli.ExitDone)
	run.wait(cli.ExitInterrupted)
	_, stopped := s.counted("own-1", "rank-0.1.log")

	s.gate(150)
	again := s.start("run", "-y", "--resume", filepath.Join(rundir.Root, "own-1"))
	s.until(again, "own-1", "more steps", reached(int64(stopped)+15))
	again.signal(syscall.SIGKILL)
	again.wait(-1)
	s.gate(160)
	out := s.start("run", "-y", "--resume", filepath.Join(rundir.Root, "own-1")).wait(cli.ExitDone)
	if !strings.Contains(out, "Resuming from the newest saved state") {
		t.Errorf("resumed:\n%s", out)
	}
	starts := programLines(s.journal("own-1"), journal.ProgramStart, "")
	first, last := s.counted("own-1", "rank-0.2.log")
	if len(starts) != 2 || starts[1].Clock != int64(stopped) || first != stopped+1 || last != 160 {
		t.Errorf("stopped at step %d; %+v; then from %d to %d", stopped, starts, first, last)
	}
	if n := number(kindsOf(s.journal("own-1")), "launch"); n != 2 || !strings.Contains(out, "has taken over 1 machine") {
		t.Errorf("%d machines were bought; resumed:\n%s", n, out)
	}
	s.noMachineLeft(endpoint)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
	checkEntries(t, s.journal("own-1"))
}

// A gang starts together, finds its master, and continues together from the last round that all have saved.
func TestGang(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.programJob("resources: {count: 2, any_of: [{type: c3.large, max_price: 0.10}]}",
		"run: |\n  echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT\n  bash count.sh", "envs: {UNTIL: 50, "+s.gate(40)+"}")
	s.replace(job, "notice: 4s", "notice: 12s") // enough for slow processes, too
	run := s.start("run", "-y", job)
	s.until(run, "own-1", "a saved round", func(e []journal.Entry) bool {
		return len(programLines(e, journal.ProgramSaved, "rank-0")) > 1 && len(programLines(e, journal.ProgramSaved, "rank-1")) > 1 && reached(12)(e)
	})
	s.order("own-1", "evict newest")
	s.until(run, "own-1", "the end of both", has(journal.ProgramEnd, 2))
	s.gate(50)
	run.wait(cli.ExitDone)
	s.nothingRuns()
	entries := s.journal("own-1")
	checkEntries(t, entries)
	masters := map[string]bool{}
	for _, rank := range []string{"rank-0", "rank-1"} {
		if got := outcomes(programLines(entries, journal.ProgramEnd, rank)); !slices.Equal(got, []string{"stopped", "finished"}) {
			t.Errorf("%s has come to %v", rank, got)
		}
		_, stopped := s.counted("own-1", rank+".1.log")
		if first, last := s.counted("own-1", rank+".2.log"); first != stopped+1 || last != 50 {
			t.Errorf("%s stopped at step %d and went on from %d to %d", rank, stopped, first, last)
		}
		line := regexp.MustCompile(`rank \d of 2 at (\S+)`).FindSubmatch(s.read("own-1", filepath.Join(rundir.LogsDir, rank+".2.log")))
		if line == nil {
			t.Fatalf("%s says nothing of its master", rank)
		}
		masters[string(line[1])] = true
	}
	if len(masters) != 1 {
		t.Errorf("the ranks have the masters %v", masters)
	}
	s.addsUp("own-1")
}

// A program that knows every port of its host, and the environment of every process, cannot reach the metadata service of any machine.
func TestProgramFindsNoMetadata(t *testing.T) {
	if !sameuser.Supported {
		t.Skip("this system does not tell whose a connection is: run it on Linux")
	}
	t.Parallel()
	s := newSite(t)
	job := s.programJob("resources: {count: 2, any_of: [{type: c3.large, max_price: 0.10}]}", "tasks: 2", "run: bash probe.sh")
	s.write("work/probe.sh", `cd "$TIERML_STATE"
for e in /proc/[0-9]*/environ; do tr '\0' '\n' <"$e" 2>/dev/null | sed -n 's,^AWS_EC2_METADATA_SERVICE_ENDPOINT=http://,,p'; done >known || :
awk '$4 == "0A" && $2 ~ /^0100007F:/ { split($2, at, ":"); print at[2] }' /proc/net/tcp | while read -r port; do echo 127.0.0.1:$((16#$port)); done >ports
trap '' PIPE
sort -u known ports | while read -r at; do
  at=${at%%/*}
  answer=
  exec 3<>"/dev/tcp/${at%:*}/${at#*:}" || continue
  printf 'PUT /latest/api/token HTTP/1.1\r\nHost: %s\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\nConnection: close\r\n\r\n' "$at" >&3 2>/dev/null
  read -r -t 2 answer <&3 && timeout 2 grep -q EC2ws <&3 && echo "answer of $at: $answer"
  exec 3<&-
done 2>/dev/null || :
echo "tried $(grep -c . known) that are known and $(grep -c . ports) ports"
`)
	printed := s.start("run", "-y", job).wait(cli.ExitDone)
	if strings.Contains(printed, "answer of") || strings.Contains(printed, "tried 0") || strings.Contains(printed, "and 0 ports") || strings.Count(printed, "that are known") != 2 {
		t.Errorf("%s", printed)
	}
	s.nothingRuns()
}
