package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// The kinds of Lines.
const (
	Asked   = "asked"   // these slots were granted to a job's request
	Placed  = "placed"  // a slot is now on a host
	Leaving = "leaving" // the job has given a slot back
	Ended   = "ended"   // a slot has ended
	Charged = "charged" // and has been charged
	// Profiled: the load of serving the job's model, and the slots that serve it.
	Profiled = "profiled"
	// Preferred: the slots that should serve it, how many more the job should have, and the hosts for those.
	Preferred = "preferred"
	// Judged: the last change stays, and is no longer watched.
	Judged = "judged"
)

// Line is one line of the book. Lines are the book: see Apply.
type Line struct {
	T       time.Time                `json:"t"`
	Kind    string                   `json:"kind"`
	Job     string                   `json:"job,omitempty"`
	User    int                      `json:"user,omitempty"` // the requester on the host's system; 0 = the hosts' own user
	Request *provisioner.Request     `json:"request,omitempty"`
	Slots   []provisioner.InstanceID `json:"slots,omitempty"`
	Size    Size                     `json:"size,omitzero"` // of each
	Slot    provisioner.InstanceID   `json:"slot,omitempty"`
	Host    step.ID                  `json:"host,omitempty"`
	Hosts   []step.ID                `json:"hosts,omitempty"`
	By      market.EndedBy           `json:"by,omitempty"`
	Why     string                   `json:"why,omitempty"`

	// Presumed: the end of a slot's process was not observed, so it may still run.
	Presumed bool `json:"presumed,omitempty"`

	USD     market.USD     `json:"usd,omitzero"`
	Profile *tiers.Profile `json:"profile,omitempty"`
	Owners  []step.ID      `json:"owners,omitempty"` // slots; Index: ps.Partition
	// OnlyServes: the job's reliable slots do nothing else.
	OnlyServes bool `json:"only_serves,omitempty"`
	More       int  `json:"more,omitempty"` // reliable slots beyond those that the job requests itself

	Leave step.ID `json:"leave,omitempty"` // the slot that goes when there is one too many; empty = the youngest

	// Watched: the change is watched; the length of jobs' clocks before it.
	Watched map[string]time.Duration `json:"watched_ns,omitempty"`
	// Refused: no further change for the job while it has all of these reliable slots.
	Refused []step.ID `json:"refused,omitempty"`
}

// ReadLines reads a book. An incomplete last line was never acted upon, and is skipped; whole is the length of the others.
func ReadLines(text []byte) (lines []Line, whole int, err error) {
	for n := 1; ; n++ {
		end := bytes.IndexByte(text[whole:], '\n')
		if end < 0 {
			return lines, whole, nil
		}
		var l Line
		decoder := json.NewDecoder(strings.NewReader(string(text[whole : whole+end])))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&l); err != nil {
			return nil, 0, fmt.Errorf("line %d of the book of slots: %w", n, err)
		}
		lines, whole = append(lines, l), whole+end+1
	}
}
