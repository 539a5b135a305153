package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/watch/shared"
)

// Partitions of a job that trains move away from a reliable host on which another job serves too much, to the job's slot on another host, between a
// clock's reads and its contributions: no clock is done again, the reason is in the journal, and the model is the same, byte for byte. What the other
// job says of itself is made up.
func TestPartitionsMoveAwayFromABusyHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sharedMarket()
	s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\n"+
		"us-west-1,c3.xlarge,4,7.5,0.240\nus-west-1,c3.2xlarge,8,15,0.480\n")
	s.write("shared.yaml", strings.Replace(sharedHosts, "reliable: {type: c3.2xlarge, count: 1}", "reliable: {type: c3.xlarge, count: 2}", 1))
	write := func(name, train, reliable string) {
		text := strings.Replace(fmt.Sprintf(sharingJob, name, train), "{count: 2,", "{count: 1,", 1)
		s.write(name+".yaml", strings.Replace(text, "reliable: {type: c3.large}", "reliable: {type: c3.large, count: "+reliable+"}", 1))
	}
	write("busy", "  app: dnn\n  clocks: 10000\n  data: classes.csv\n  params: {target: class}", "1")
	write("moved", "  app: mlr\n  clocks: 1000\n  data: classes.csv\n  params: {target: class}", "2")
	cloud, endpoint := s.cloud("600", "5000")
	keeper := s.start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
	s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
	busy := s.start("run", "-y", "--plain", "--hosts", "shared-1", "busy.yaml")
	s.until(busy, "busy-1", "its slots", func(entries []journal.Entry) bool { return count(entries, journal.Join) == 2 })
	run := s.start("run", "-y", "--plain", "--hosts", "shared-1", "moved.yaml")
	s.until(run, "moved-1", "what serving takes", func(entries []journal.Entry) bool { return count(entries, journal.Profile) > 0 })

	var shown shared.View
	s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	other := slices.IndexFunc(shown.Jobs, func(j shared.Job) bool { return j.Run() == "busy-1" })
	jobs := desk.Connect(s.path(rundir.Root, "shared-1"), shown.Jobs[other].Job, "ec2", time.Second, slog.New(slog.DiscardHandler))
	defer jobs.Close()
	if _, err := jobs.Profile(t.Context(), tiers.Served{Profile: tiers.Profile{Clock: time.Second, Serving: []time.Duration{6 * time.Second}}}); err != nil {
		t.Fatal(err)
	}
	s.until(run, "moved-1", "moves away from the busy host", func(entries []journal.Entry) bool {
		i := slices.IndexFunc(entries, func(e journal.Entry) bool {
			return e.Kind == journal.Move && e.Count == 2 && strings.Contains(e.Why, "serving takes 6.") && strings.Contains(e.Why, "with 4 vCPUs")
		})
		return i >= 0 && count(entries[i:], journal.Moved) > 0
	})
	s.poll("a host that serves the busy job alone", func() bool {
		s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
		return slices.ContainsFunc(shown.Hosts, func(h shared.Host) bool { return h.Tier == string(step.Reliable) && h.Serves == 6 })
	})
	run.wait(0)
	for _, e := range s.journal("moved-1") {
		if e.Kind == journal.Rollback || e.Kind == journal.ClockDone && e.Redone {
			t.Errorf("clock %d was done again: %+v", e.Clock, e)
		}
		if e.Kind == journal.Move || e.Kind == journal.Moved {
			t.Logf("%s of %d partitions, %s to %s, in %.3f s: %s", e.Kind, e.Count, e.From, e.To, e.Seconds, e.Why)
		}
	}
	if !bytes.Equal(s.read("moved-1", rundir.ModelFile), s.modelOfOneProcess(s.path("moved.yaml"))) {
		t.Error("the model is not that of a single process")
	}
	s.start("stop", "busy-1").wait(0)
	busy.wait(130) // interrupted
	s.start("stop", "shared-1").wait(0)
	keeper.wait(0)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}
