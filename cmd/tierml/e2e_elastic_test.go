package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/python/pythontest"
)

// elasticRank counts, and prints when it has met the coordinator and which other ranks there are.
const elasticRank = `
  until (exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do sleep 0.1; done
  echo "rank $NODE_RANK of $NNODES met at $MASTER_ADDR:$MASTER_PORT"
  while sleep 0.02; do
    now=; while read -r rank _; do now="$now$rank "; done <"$TIERML_PEERS_FILE"
    [ "$now" = "${was-}" ] || { was=$now; echo "peers: $now"; }
  done &
  bash count.sh || code=$?
  kill $! || true
  exit ${code:-0}`

// A gang of four with on_loss: replace, one machine of which is evicted and another killed: two ranks restart, and the others run on, in
// one attempt, and learn of it. When the controller is killed the next one adopts all four, and its coordinator is at the same address.
func TestElasticGang(t *testing.T) {
	t.Parallel()
	python := pythontest.Interpreter(t)
	s := newSite(t)
	job := s.programJob("resources: {count: 4, any_of: [{type: c3.large, max_price: 0.10}]}", "on_loss: replace",
		`coordinator: exec `+python+` -m http.server --bind "$MASTER_ADDR" "$MASTER_PORT"`, "run: |"+elasticRank, "envs: {UNTIL: 60, "+s.gate(20)+"}")
	s.write(job, strings.Replace(string(must(os.ReadFile(s.path(job)))(t)), "orphan_after: 1500ms", "orphan_after: 5m", 1))
	cloud, endpoint := s.cloud("60", "50000")
	run := s.start("run", "-y", "--endpoint", endpoint, job)
	starts := func(more int) func([]journal.Entry) bool {
		return func(e []journal.Entry) bool { return len(programLines(e, journal.ProgramStart, "")) >= 4+more }
	}
	s.until(run, "own-1", "four ranks that have counted", func(e []journal.Entry) bool {
		for _, rank := range []string{"rank-0", "rank-1", "rank-2", "rank-3"} {
			if lines := programLines(e, journal.ProgramSaved, rank); len(lines) == 0 || lines[len(lines)-1].Clock < 20 {
				return false
			}
		}
		return true
	})
	s.tell(endpoint, "evict newest")
	s.until(run, "own-1", "another after the eviction", starts(1))
	s.tell(endpoint, "kill oldest")
	s.until(run, "own-1", "another after the kill", starts(2))
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	s.gate(60)
	out := s.start("run", "-y", "--resume", filepath.Join(rundir.Root, "own-1")).wait(cli.ExitDone)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
	entries := s.journal("own-1")
	checkEntries(t, entries)
	if !strings.Contains(out, "has taken over 4 machines") {
		t.Errorf("resumed:\n%s", out)
	}
	masters, all := map[string]bool{}, []string{}
	for _, rank := range []string{"rank-0", "rank-1", "rank-2", "rank-3"} {
		came := outcomes(programLines(entries, journal.ProgramEnd, rank))
		all = append(all, strings.Join(came, ","))
		logs := string(must(s.programLog(rank))(t))
		for _, met := range regexp.MustCompile(`rank \d of 4 met at (\S+)`).FindAllStringSubmatch(logs, -1) {
			masters[met[1]] = true
		}
		if len(came) == 1 && len(regexp.MustCompile(`peers: `).FindAllString(logs, -1)) < 4 {
			t.Errorf("%s has not read of the others:\n%s", rank, logs)
		}
	}
	slices.Sort(all)
	if want := []string{"finished", "finished", "lost,finished", "stopped,finished"}; !slices.Equal(all, want) {
		t.Errorf("the ranks have come to %q, and not %q", all, want)
	}
	if len(masters) != 1 {
		t.Errorf("the ranks have met at %v", masters)
	}
}

// programLog returns the output of all attempts of a program.
func (s *site) programLog(program string) (text []byte, err error) {
	names, err := filepath.Glob(s.path(rundir.Root, "own-1", rundir.LogsDir, program+".*.log"))
	for _, name := range names {
		part, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text = append(text, part...)
	}
	return text, err
}
