package kube_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// A node is lost with all its pods, without warning, and comes back under another name: the cluster collects its pods, others train on it
// under that name, and the model is that of one process.
func TestRealRenamedNode(t *testing.T) {
	w := newWorld(t)
	dir := w.job("renamed", "clocks: 60", "clocks: 5000", "max_duration: 2h", "max_duration: 2h\ncheckpoint: {every: 10m}")
	done := make(chan error, 1)
	go func() { _, err := w.tierml(dir, "run", "-y", "--here", "job.yaml"); done <- err }()
	w.inTheMiddle("renamed", dir)
	before, joined := w.spotPods("renamed-1"), w.lines(dir, "renamed-1", journal.Join)
	went := time.Now()
	w.nodes["demo-spot"]()
	w.kubectl("delete", "node", "demo-spot")
	w.startNode("demo-renamed", "spot")
	w.until("three others train on the renamed node", func() bool {
		now := w.spotPods("renamed-1")
		return len(now) == 3 && !slices.ContainsFunc(now, func(p string) bool { return slices.Contains(before, p) }) && w.lines(dir, "renamed-1", journal.Join) >= joined+3
	})
	select {
	case err := <-done:
		t.Fatalf("it was over before the others came: %v", err)
	default:
	}
	came, clocks := time.Since(went), w.lines(dir, "renamed-1", journal.ClockDone)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("the others trained after %s: %d clocks before that, %d after it", came.Round(time.Second), clocks, w.lines(dir, "renamed-1", journal.ClockDone)-clocks)
	w.checkAsOneProcess(dir, "renamed-1")
	w.checkEmpty()
	w.nodes["demo-renamed"]()
	w.kubectl("delete", "node", "demo-renamed")
}
