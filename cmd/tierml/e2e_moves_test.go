package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/watch/shared"
)

// busyHost is shared hosts with two jobs: busy, whose serving load the test makes up, and moved.
type busyHost struct {
	*site
	cloud, keeper, busy, moved *process
	jobs                       *desk.Cloud // busy's
}

// newBusyHost starts them, and waits until the serving load of moved, which requests reliable slots, is known.
func newBusyHost(t *testing.T, reliable string) *busyHost {
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
	write("moved", "  app: mlr\n  clocks: 1000\n  data: classes.csv\n  params: {target: class}", reliable)
	b := &busyHost{site: s}
	var endpoint string
	b.cloud, endpoint = s.cloud("600", "5000")
	b.keeper = s.start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
	s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
	b.busy = s.start("run", "-y", "--plain", "--on", "shared-1", "busy.yaml")
	s.until(b.busy, "busy-1", "its slots", func(entries []journal.Entry) bool { return count(entries, journal.Join) == 2 })
	b.moved = s.start("run", "-y", "--plain", "--on", "shared-1", "moved.yaml")
	s.until(b.moved, "moved-1", "what serving takes", func(entries []journal.Entry) bool { return count(entries, journal.Profile) > 0 })
	shown := b.shown()
	other := slices.IndexFunc(shown.Jobs, func(j shared.Tenant) bool { return j.Run() == "busy-1" })
	b.jobs = desk.Connect(s.path(rundir.Root, "shared-1"), shown.Jobs[other].Job, "ec2", hosts.Size{}, time.Second, slog.New(slog.DiscardHandler))
	t.Cleanup(b.jobs.Close)
	return b
}

func (b *busyHost) shown() (shown shared.View) {
	b.t.Helper()
	b.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	return shown
}

// serves makes busy report how many cores serving takes.
func (b *busyHost) serves(cores int) {
	b.t.Helper()
	took := time.Duration(cores) * time.Second
	if _, err := b.jobs.Profile(b.t.Context(), tiers.Served{Profile: tiers.Profile{Clock: time.Second, Serving: []time.Duration{took}}}); err != nil {
		b.t.Fatal(err)
	}
}

// finish waits for moved to end, checks that its model is that of one process and that it repeated no clock, and ends the others.
func (b *busyHost) finish() {
	b.t.Helper()
	b.moved.wait(0)
	for _, e := range b.journal("moved-1") {
		if e.Kind == journal.Rollback || e.Kind == journal.ClockDone && e.Redone {
			b.t.Errorf("clock %d was done again: %+v", e.Clock, e)
		}
		if e.Kind == journal.Move || e.Kind == journal.Moved {
			b.t.Logf("%s of %d partitions, %s to %s, in %.3f s: %s", e.Kind, e.Count, e.From, e.To, e.Seconds, e.Why)
		}
	}
	if !bytes.Equal(b.read("moved-1", rundir.ModelFile), b.modelOfOneProcess(b.path("moved.yaml"))) {
		b.t.Error("the model is not that of a single process")
	}
	b.start("stop", "busy-1").wait(0)
	b.busy.wait(130) // interrupted
	b.start("stop", "shared-1").wait(0)
	b.keeper.wait(0)
	b.cloud.signal(os.Interrupt)
	b.cloud.wait(0)
	b.nothingRuns()
}

// Partitions of a training job move away from a reliable host where another job serves too much, to the job's slot on another host, between
// a clock's reads and its contributions: no clock is repeated, the reason is in the journal, and the model is the same, byte for byte. The
// other job's reports are made up.
func TestPartitionsMoveAwayFromABusyHost(t *testing.T) {
	t.Parallel()
	b := newBusyHost(t, "2")
	b.serves(6)
	b.until(b.moved, "moved-1", "moves away from the busy host", func(entries []journal.Entry) bool {
		i := slices.IndexFunc(entries, func(e journal.Entry) bool {
			return e.Kind == journal.Move && e.Count == 2 && strings.Contains(e.Why, "serving takes 6.") && strings.Contains(e.Why, "with 4 vCPUs")
		})
		return i >= 0 && count(entries[i:], journal.Moved) > 0
	})
	b.poll("a host that serves the busy job alone", func() bool {
		return slices.ContainsFunc(b.shown().Hosts, func(h shared.Host) bool { return h.Tier == string(step.Reliable) && h.Serves == 6 })
	})
	b.finish()
}

// A job with a single reliable slot on a busy host is lent another one, on a host that is bought for it, and its partitions spread over
// both. Then its clocks become longer, as the test stops its worker most of the time: after a hundred clocks the slot is taken back. No
// clock is repeated, and the model is the same, byte for byte.
func TestALentSlotIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBusyHost(t, "1")
	before := map[string]bool{}
	for _, e := range b.journal("moved-1") {
		before[e.Instance] = true
	}
	b.serves(6)
	var lent string
	var worker string
	b.until(b.moved, "moved-1", "partitions on the slot that it is lent", func(entries []journal.Entry) bool {
		for i, e := range entries {
			if e.Kind == journal.Join && e.Tier == string(step.Transient) {
				worker = e.Instance
			}
			if e.Kind == journal.Join && !before[e.Instance] && e.Tier == string(step.Reliable) {
				lent = e.Instance
				return count(entries[i:], journal.Moved) > 0
			}
		}
		return false
	})
	if !slices.ContainsFunc(b.journal("moved-1"), func(e journal.Entry) bool {
		return e.Kind == journal.Scale && strings.Contains(e.To, "2 reliable machines") && strings.Contains(e.Why, "serving takes 6.")
	}) {
		t.Error("no line says why the job has another reliable machine")
	}
	end := b.slow(worker)
	b.until(b.moved, "moved-1", "the end of the slot", func(entries []journal.Entry) bool {
		return slices.ContainsFunc(entries, func(e journal.Entry) bool {
			return e.Kind == journal.Scale && strings.Contains(e.Why, "lost") && strings.Contains(e.Why, "taken back")
		})
	})
	end()
	b.until(b.moved, "moved-1", "the end of the slot", func(entries []journal.Entry) bool {
		return slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.Terminated && e.Instance == lent })
	})
	b.finish()
}

// slow stops the processes of a slot for most of the time, until end is called.
func (b *busyHost) slow(slot string) (end func()) {
	b.t.Helper()
	pids := b.slotProcesses(slot)
	send := func(signal syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal) // it may have ended
		}
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			send(syscall.SIGSTOP)
			time.Sleep(150 * time.Millisecond)
			send(syscall.SIGCONT)
			select {
			case <-ended:
				return
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
	end = sync.OnceFunc(func() { close(ended); <-stopped })
	b.t.Cleanup(end)
	return end
}

// slotProcesses returns the processes of a slot: a child of one of the hosts' agents and, where there are namespaces, the program that it confines.
func (b *busyHost) slotProcesses(slot string) (pids []int) {
	b.t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*")
	found := map[string]bool{}
	for range 2 { // a child may have a lower number than its parent
		for _, dir := range all {
			environment, _ := os.ReadFile(filepath.Join(dir, "environ")) // it may end meanwhile
			stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
			fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			if !strings.Contains(string(environment)+"\x00", "/"+slot+"\x00") || len(fields) < 2 || found[filepath.Base(dir)] {
				continue
			}
			log, _ := os.Readlink(filepath.Join("/proc", fields[1], "fd", "2"))
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && (filepath.Dir(log) == b.path("cloudlogs") || found[fields[1]]) {
				found[filepath.Base(dir)] = true
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) == 0 {
		b.t.Fatalf("no process has %s", slot)
	}
	return pids
}
