package fakecloud

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"
)

// A stopped machine has no process and costs nothing; a started one has another process, and is billed again.
func TestStoppedMachineCostsNothing(t *testing.T) {
	c := run(t, func(c *Config) { c.Command = bash(printAndWait) })
	var made struct {
		IDs []string `xml:"instancesSet>item>instanceId"`
	}
	if err := xml.Unmarshal([]byte(c.query("Action", "RunInstances", "ImageId", "ami-1", "InstanceType", "c3.xlarge", "MinCount", "1", "MaxCount", "1")), &made); err != nil {
		t.Fatal(err)
	}
	id := made.IDs[0]
	c.awaitState(id, "running")
	first := c.pid(id)
	c.query("Action", "StopInstances", "InstanceId.1", id)
	c.awaitState(id, "stopped")
	if alive(first) {
		t.Errorf("process %d lives on", first)
	}
	c.wind(5 * time.Hour)
	stopped, err := c.Bill()
	if err != nil || len(stopped.Lines) != 1 || stopped.Lines[0].Ended.IsZero() {
		t.Fatalf("bill of a stopped machine: %+v %v", stopped, err)
	}
	c.query("Action", "StartInstances", "InstanceId.1", id)
	c.awaitState(id, "running")
	await(t, "another process has begun", func() bool { return strings.Count(c.log(id), "pid ") == 2 })
	started, err := c.Bill()
	if err != nil || len(started.Lines) != 2 || started.Lines[1].ID != id || !started.Lines[1].Ended.IsZero() {
		t.Fatalf("bill of a started machine: %+v %v", started, err)
	}
	if lines := started.Lines; lines[1].Launched.Before(lines[0].Ended.Add(4*time.Hour)) || lines[0].Total != stopped.Total {
		t.Errorf("the time between is billed: %+v", lines)
	}
}
