// Package program runs a user's program on a machine that may be reclaimed: it fetches the folder, prepares the machine once, starts the
// program in a session of its own, warns it, mirrors its state, and reports how it ended. It knows nothing about controllers, providers,
// prices, and other machines.
package program

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Spec is what every machine of a job runs.
type Spec struct {
	Run           string            `json:"run"`             // for bash
	Setup         string            `json:"setup,omitempty"` // once per machine, before anything runs
	OnNotice      string            `json:"on_notice,omitempty"`
	Workdir       string            `json:"workdir,omitempty"` // name of the packed folder; empty = an empty folder
	WorkdirDigest string            `json:"workdir_digest,omitempty"`
	Envs          map[string]string `json:"envs,omitempty"`
	State         string            `json:"state,omitempty"`        // directory below the folder; empty = none
	Marker        string            `json:"marker,omitempty"`       // only directories with a file of this name, and nothing newer, are complete state
	Every         time.Duration     `json:"every,omitempty"`        // wall clock between saves; 0 = only on Save and at the end
	Line          string            `json:"line,omitempty"`         // expression that finds the progress in a line of output
	File          string            `json:"file,omitempty"`         // file below the folder with the progress
	Store         string            `json:"store"`                  // parent of state and logs
	Rungs         []int64           `json:"rungs,omitempty"`        // steps at which the losses of a sweep's trials are compared
	CloudAccess   bool              `json:"cloud_access,omitempty"` // programs may use the run's own store
	Image         string            `json:"image,omitempty"`        // of the container that everything runs in; empty = none
}

// Start is one attempt of one program: a rank of a gang, or a task.
type Start struct {
	Attempt      uint64            `json:"attempt"` // grows with every attempt of a key
	Run          string            `json:"run"`     // the run's name
	Key          string            `json:"key"`     // owner of the state: rank-0, task-17
	Rank         int               `json:"rank"`
	Ranks        int               `json:"ranks"` // 1 = alone
	Task         int               `json:"task"`
	Tasks        int               `json:"tasks"`                   // 0 = no array
	Master       string            `json:"master,omitempty"`        // HOST:PORT at which the ranks meet
	Resume       string            `json:"resume,omitempty"`        // initial manifest; empty = none, or the last one that all ranks of a gang have saved
	ResumeDigest string            `json:"resume_digest,omitempty"` // of the manifest, if known
	Settings     map[string]string `json:"settings,omitempty"`      // environment variables of a sweep's trial
	Secrets      map[string]string `json:"-"`                       // environment variables
	// Elastic: the other ranks keep running when this one is lost, and each saves its state by itself. Peers are the running ones, as "RANK
	// HOST:PORT".
	Elastic bool     `json:"elastic,omitempty"`
	Peers   []string `json:"peers,omitempty"`
}

// tracking returns the variables by which Weights & Biases treats all attempts of a program as one run. The run's own name stays local: it
// also excludes machines of other runs.
func (s *Start) tracking() map[string]string {
	sum := sha256.Sum256([]byte("tracking " + s.Run))
	name := s.Run
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	group := name + "-" + hex.EncodeToString(sum[:4])
	return map[string]string{"WANDB_RUN_ID": group + "-" + s.Key, "WANDB_RESUME": "allow", "WANDB_RUN_GROUP": group}
}

// Check finds faults that would fail on any machine.
func (s *Spec) Check() error {
	if strings.TrimSpace(s.Run) == "" {
		return fmt.Errorf("there is no command to run")
	}
	for _, dir := range []struct{ word, path string }{{"state", s.State}, {"progress file", s.File}} {
		if dir.path != "" && (!filepath.IsLocal(dir.path) || filepath.Clean(dir.path) == ".") {
			return fmt.Errorf("the %s %q must be below the folder that the program runs in", dir.word, dir.path)
		}
	}
	if s.Line != "" {
		e, err := regexp.Compile(s.Line)
		if err != nil {
			return fmt.Errorf("the expression for progress: %w", err)
		}
		if e.NumSubexp() == 0 {
			return fmt.Errorf(`the expression for progress %q has no group for the step: write step (\d+)`, s.Line)
		}
	}
	return nil
}

// Event is something that happened to an attempt.
type Event interface{ attempt() uint64 }

// Of is which attempt an event is about.
type Of struct {
	Attempt uint64 `json:"attempt"`
	Key     string `json:"key"`
}

func (o Of) attempt() uint64 { return o.Attempt }

// Started is reported when the program runs.
type Started struct {
	Of
	Fetch    time.Duration `json:"fetch"` // duration of the steps before
	Setup    time.Duration `json:"setup"`
	Restore  time.Duration `json:"restore"`
	Bytes    int64         `json:"bytes"`              // of the restored state
	Manifest string        `json:"manifest,omitempty"` // that was restored
	Step     int64         `json:"step,omitempty"`     // the state's
	Note     string        `json:"note,omitempty"`     // why it is not the requested one
}

// Advanced is the program's progress, at most twice a second, and at each rung.
type Advanced struct {
	Of
	Reading
}

// Reading is what a program reports at a step.
type Reading struct {
	Step    int64
	HasLoss bool
	Loss    float64 // may be NaN: it diverged
}

// Saved is a new generation of the state.
type Saved struct {
	Of
	Manifest string        `json:"manifest"`
	Digest   string        `json:"digest"`
	Round    uint64        `json:"round,omitempty"` // as requested by Save; 0 = by itself
	Step     int64         `json:"step"`
	Bytes    int64         `json:"bytes"`
	Sent     int64         `json:"sent"`
	Took     time.Duration `json:"took"`
	Final    bool          `json:"final"` // the program has ended
	// Left are files that were being written: their former versions, if any, still count.
	Left []string `json:"left,omitempty"`
	// Foreign are links that lead out of the state's folder, and files with a name outside of it: they are not saved.
	Foreign []string `json:"foreign,omitempty"`
}

// SaveFailed is a save that did not happen. Earlier generations still count.
type SaveFailed struct {
	Of
	Round     uint64 `json:"round,omitempty"`
	Reason    string `json:"reason"`
	Final     bool   `json:"final"`
	TakenOver bool   `json:"taken_over"` // a newer attempt writes this state
}

// Phase is what an attempt was doing when it ended.
type Phase string

// Phases in order.
const (
	Fetching  Phase = "fetch"
	SettingUp Phase = "setup"
	Restoring Phase = "restore"
	Running   Phase = "run"
)

// Exited is the last event of an attempt.
type Exited struct {
	Of
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	Phase  Phase  `json:"phase"`
	Asked  bool   `json:"asked"`          // after Stop or Notice: neither a failure nor a success of the program
	Tail   string `json:"tail,omitempty"` // its last lines of output
	Note   string `json:"note,omitempty"` // the reason, if there is more to say
	// CPU is the processor time of the program and all that it waited for, in seconds, and Memory the peak memory of one process; 0 =
	// unknown, as in containers. Wait is for how many seconds its threads waited for a processor, all together.
	CPU    float64 `json:"cpu,omitempty"`
	Wait   float64 `json:"wait,omitempty"`
	Memory int64   `json:"memory,omitempty"`
}
