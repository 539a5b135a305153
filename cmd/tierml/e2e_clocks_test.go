package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
)

// clockOf returns the median of a run's clocks with all machines, in wall-clock seconds, without the first ones.
func clockOf(entries []journal.Entry, machines int) float64 {
	const settling = 3
	var seconds []float64
	for _, e := range entries {
		if e.Kind == journal.ClockDone && e.Transient == machines && !e.Redone {
			seconds = append(seconds, e.Seconds)
		}
	}
	if len(seconds) < 2*settling {
		return 0
	}
	seconds = seconds[settling:]
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

// servingOf returns how long serving a run's model takes per clock, in seconds, and what share of a core that is, as first measured.
func servingOf(t *testing.T, entries []journal.Entry) (seconds, cores float64) {
	t.Helper()
	at := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.Profile })
	if at < 0 {
		return 0, 0
	}
	details, err := entries[at].ProfileDetails()
	if err != nil {
		t.Fatal(err)
	}
	for _, nanos := range details.Serving {
		seconds += float64(nanos) / 1e9
	}
	return seconds, seconds / entries[at].Seconds
}

// ticks returns the processor time of this test's processes so far, in seconds.
func (s *site) ticks() (sum float64) {
	const user, system, perSecond = 13, 14, 100
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if exe, _ := os.Readlink(filepath.Join(dir, "exe")); exe != builtBinary(s.t) {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, "stat"))
		if at := bytes.LastIndexByte(text, ')'); at > 0 {
			f := append([]string{"", ""}, strings.Fields(string(text[at+1:]))...)
			for _, i := range []int{user, system} {
				n, _ := strconv.ParseFloat(f[i], 64)
				sum += n / perSecond
			}
		}
	}
	return sum
}

// Four jobs on shared hosts, paced so that this computer is not the bottleneck: the median clock of each is at most 5 % longer than when it
// has the hosts to itself. The cost of serving the models is printed too (AutoPS's figures 7 and 9). make -C lab clocks runs it: it
// measures times, and needs a quiet computer.
func TestClocksOnSharedHosts(t *testing.T) {
	if os.Getenv("TIERML_TEST_CLOCKS") == "" {
		t.Skip("make -C lab clocks runs it")
	}
	s := newSite(t)
	s.sharedMarket()
	s.write("shared.yaml", sharedHosts)
	trains := map[string]string{
		"mf":  "  app: mf\n  clocks: 40\n  data: ratings.csv\n  params: {rank: 4, batches: 4}",
		"lda": "  app: lda\n  clocks: 40\n  data: docword.two.txt\n  params: {topics: 2}",
		"mlr": "  app: mlr\n  clocks: 400\n  data: classes.csv\n  params: {target: class}",
		"dnn": "  app: dnn\n  clocks: 36\n  data: classes.csv\n  params: {target: class}",
	}
	names := []string{"mf", "lda", "mlr", "dnn"}
	cloud, endpoint := s.cloud("600", "5000")
	keeper := s.start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
	s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
	for _, name := range names {
		s.write(name+".yaml", fmt.Sprintf(sharingJob, name, trains[name]))
		s.start("run", "-y", "--plain", "--on", "shared-1", name+".yaml").wait(0)
	}
	before, began := s.ticks(), time.Now()
	var runs []*process
	for _, name := range names {
		runs = append(runs, s.start("run", "-y", "--plain", "--on", "shared-1", name+".yaml"))
	}
	s.poll("clocks of all", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !clockIs(8)(s.journal(name + "-2")) })
	})
	used := (s.ticks() - before) / time.Since(began).Seconds()
	reliable := 0
	for _, i := range s.instances(endpoint) {
		if i.Pool.Class == market.OnDemand && i.Ended.IsZero() {
			reliable++
		}
	}
	for _, run := range runs {
		run.wait(0)
	}
	for _, name := range names {
		alone, together := clockOf(s.journal(name+"-1"), 2), clockOf(s.journal(name+"-2"), 2)
		if alone == 0 || together == 0 {
			t.Errorf("%s has not run long enough: %g and %g s", name, alone, together)
			continue
		}
		t.Logf("%s: a clock takes %.1f ms alone and %.1f ms with three others: %+.1f %%", name, 1000*alone, 1000*together, 100*(together/alone-1))
		if took, cores := servingOf(t, s.journal(name+"-1")); took > 0 {
			with, of := servingOf(t, s.journal(name+"-2"))
			t.Logf("%s: serving takes %.3f ms of a clock alone and %.3f ms with three others: %.4f and %.4f cores", name, 1000*took, 1000*with, cores, of)
		}
		if together > 1.05*alone {
			t.Errorf("%s: that is more than 5 %%", name)
		}
	}
	t.Logf("all processes together used %.2f processors until each job had done 8 clocks", used)
	t.Logf("%d reliable hosts served %d jobs, which ask for one each (figure 8)", reliable, len(names))
	s.start("stop", "shared-1").wait(0)
	keeper.wait(0)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}
