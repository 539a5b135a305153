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

// What a Line is about.
const (
	Asked   = "asked"   // a job's request was granted these slots
	Placed  = "placed"  // a slot is on a host from now on
	Leaving = "leaving" // the job has given a slot back
	Ended   = "ended"   // a slot has ended
	Charged = "charged" // and its cost
	// Profiled: the load of serving the job's model, and the slots that serve it.
	Profiled = "profiled"
	// Preferred: the slots that should serve it, how many more the job should have, and the hosts for those.
	Preferred = "preferred"
	// Judged: the last change stays, and is not watched any more.
	Judged = "judged"
)

// Line is one line of the book. Lines are the book: see Apply.
type Line struct {
	T       time.Time                `json:"t"`
	Kind    string                   `json:"kind"`
	Job     string                   `json:"job,omitempty"`
	User    int                      `json:"user,omitempty"` // of the host's system, the requester; 0 = the hosts' own
	Request *provisioner.Request     `json:"request,omitempty"`
	Slots   []provisioner.InstanceID `json:"slots,omitempty"`
	Size    Size                     `json:"size,omitzero"` // of each
	Slot    provisioner.InstanceID   `json:"slot,omitempty"`
	Host    step.ID                  `json:"host,omitempty"`
	Hosts   []step.ID                `json:"hosts,omitempty"`
	By      market.EndedBy           `json:"by,omitempty"`
	Why     string                   `json:"why,omitempty"`

	// Presumed: nobody saw the end of a slot's process, which may still run.
	Presumed bool `json:"presumed,omitempty"`

	USD     market.USD     `json:"usd,omitzero"`
	Profile *tiers.Profile `json:"profile,omitempty"`
	Owners  []step.ID      `json:"owners,omitempty"` // slots; Index: ps.Partition
	// OnlyServes: the job's reliable slots do nothing else.
	OnlyServes bool `json:"only_serves,omitempty"`
	More       int  `json:"more,omitempty"` // reliable slots beyond those that the job asks for itself

	Leave step.ID `json:"leave,omitempty"` // the slot that goes when there is one too many; empty = the youngest

	// Watched: the change is watched, and jobs' clocks took so long before.
	Watched map[string]time.Duration `json:"watched_ns,omitempty"`
	// Refused: while the job has all of these reliable slots, nothing is changed for it again.
	Refused []step.ID `json:"refused,omitempty"`
}

// ReadLines reads a book. A last line that was cut off was never acted upon, and is left out; whole says how many bytes the others have.
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
