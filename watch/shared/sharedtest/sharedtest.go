// Package sharedtest writes made-up runs of shared hosts, for tests of views.
package sharedtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/watch/shared"
)

// The hosts: each of 8 vCPUs and 15 GiB, the reliable one at $0.48 an hour, the transient one at $0.10.
const (
	Reliable  = "i-1"
	Transient = "i-2"
	pool      = "ec2/us-west-1/us-west-1a/c3.2xlarge/"
	fit       = 4 // slots on a host
)

// Slot is the size of each slot, a quarter of a host.
var Slot = hosts.Size{VCPU: 2, MemoryMiB: 3840}

// Name returns the job name of a run, as slots use it.
func Name(run string) string { return run + "-0123abcd" }

// Write creates a run of shared hosts in a directory. Each of the runs' jobs has a reliable and a transient slot, or waits for them once
// four others have theirs. The first two are measured: serving each takes five cores.
func Write(dir string, runs ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	w, err := journal.Create(filepath.Join(dir, rundir.JournalFile), nil)
	if err != nil {
		return err
	}
	details, err := journal.Pack(journal.StartDetails{Name: "shared", Clock: clock.Real().String(), Rules: "ec2-2017", App: shared.App,
		Machines: []journal.MachineType{{Name: "c3.2xlarge", VCPU: fit * Slot.VCPU, MemoryMiB: fit * Slot.MemoryMiB, OnDemand: "0.48"}}})
	err = errors.Join(err, w.Write(journal.Entry{T: now, Kind: journal.Start, Details: details}),
		w.Write(journal.Entry{T: now, Kind: journal.Price, Pool: pool + "spot", USD: "0.1", At: &now}),
		w.Write(journal.Entry{T: now, Kind: journal.Launch, Instance: Reliable, Tier: string(step.Reliable), Pool: pool + "on-demand", Launched: &now}),
		w.Write(journal.Entry{T: now, Kind: journal.Launch, Instance: Transient, Tier: string(step.Transient), Pool: pool + "spot", Bid: "0.2", Launched: &now}),
		w.Close())

	var book bytes.Buffer
	write := func(l hosts.Line) {
		text, failed := json.Marshal(l)
		err = errors.Join(err, failed)
		book.Write(append(text, '\n'))
	}
	for i, run := range runs {
		for class, on := range map[string]step.ID{"on-demand": Reliable, "spot": Transient} { // in any order: they are independent
			of, failed := market.ParsePool("ec2/us-west-1/us-west-1a/c3.large/" + class)
			err = errors.Join(err, failed)
			id := provisioner.InstanceID(fmt.Sprintf("slot-%s-%d", class, i))
			write(hosts.Line{T: now, Kind: hosts.Asked, Job: Name(run), Request: &provisioner.Request{Token: string(id), Pool: of, Count: 1},
				Slots: []provisioner.InstanceID{id}, Size: Slot})
			if i < fit {
				write(hosts.Line{T: now, Kind: hosts.Placed, Slot: id, Host: on})
			}
		}
		if i < 2 {
			write(hosts.Line{T: now, Kind: hosts.Profiled, Job: Name(run), Profile: &tiers.Profile{Clock: time.Second, Serving: slices.Repeat([]time.Duration{time.Second}, 5)}})
		}
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, desk.BookFile), book.Bytes(), 0o600))
}
