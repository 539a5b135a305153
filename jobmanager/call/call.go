// Package call is the protocol of clients and the job server, HTTP and JSON: requests, responses, and a client. docs/server.md is the
// reference.
//
// It knows nothing about how jobs are kept and run.
package call

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tierml/tierml/sched/grants"
	"github.com/tierml/tierml/watch/dashboard"
)

// State is a stage in a job's life.
type State string

// The states of a job. The last three are final; a stopped or failed job can be resumed.
const (
	Queued   State = "queued"   // waits for its turn, or for its run to be restarted
	Running  State = "running"  // its run is active
	Stopping State = "stopping" // its run saves its work and ends its machines
	Finished State = "finished"
	Failed   State = "failed"
	Stopped  State = "stopped" // ended before it was done: a user requested it, or a budget or max_duration is used up
)

// Over reports whether nothing more happens without a user's request.
func (s State) Over() bool { return s == Finished || s == Failed || s == Stopped }

// Job is a job as the job server reports it: a summary of its run (dashboard.Summary, whose State is the job's), and what only the job
// server knows. A run that was started by hand in the job server's directory has no Submitted.
type Job struct {
	dashboard.Summary
	Submitted *time.Time `json:"submitted,omitempty"`
	Place     int        `json:"place,omitempty"`  // in the queue, from 1
	Starts    int        `json:"starts,omitempty"` // of its run
	Hosts     bool       `json:"hosts,omitempty"`  // machines that jobs share, not a job
	Trials    []string   `json:"trials,omitempty"` // of a sweep that was just submitted: its other trials
	// Cloud is the address of the fake cloud of a run with cloud: local, on the job server's host. It is missing in lists of jobs.
	Cloud string `json:"cloud,omitempty"`
}

// Why explains what a scheduler granted a job, with the reason and the alternatives: GET /api/v1/jobs/ID/why.
type Why struct {
	grants.Grant
	Policy  string         `json:"policy"`
	At      time.Time      `json:"at"`             // of the decision
	Plan    string         `json:"plan,omitempty"` // of the decision as a whole
	Held    int            `json:"held"`           // slots that it has or is waiting for now
	Least   int            `json:"least"`          // workers, from its file
	Most    int            `json:"most"`
	Refused string         `json:"refused,omitempty"` // why its run does not have the grant yet
	Else    map[string]int `json:"else"`              // workers that other schedulers would grant it, starting from nothing
	Jobs    []grants.Grant `json:"jobs"`              // of all jobs, in the same decision
}

// Outlook says when the job server would start a job that is not submitted: POST /api/v1/plan?outlook=only. The plan as text ends with it.
type Outlook struct {
	grants.Outlook
	// PerHour is what its workers cost per hour on shared hosts, at present prices, in dollars; 0 = unknown, or it has machines of its own,
	// whose costs the plan has.
	PerHour float64 `json:"usd_per_hour,omitempty"`
	// Fewer is what it would get if count began at 1; nil = no more or no sooner.
	Fewer *grants.Outlook `json:"fewer,omitempty"`
	// Else is what other schedulers would do in the same situation, the best first.
	Else []grants.Outlook `json:"else,omitempty"`
}

// WriteText writes an outlook for people.
func (o Outlook) WriteText(out io.Writer) error {
	price := ""
	if o.PerHour > 0 {
		price = fmt.Sprintf(", for $%.4f an hour at present prices", o.PerHour)
	}
	fmt.Fprintf(out, "Start    %s%s (%s: %s)\n", when(o.Outlook), price, o.Policy, o.Why)
	if len(o.Ends) > 0 {
		fmt.Fprintf(out, "         after the end of %s, at the pace measured so far\n", strings.Join(o.Ends, ", "))
	}
	if o.Fewer != nil {
		fmt.Fprintf(out, "Next     if resources.count began at 1: %s\n", when(*o.Fewer))
	}
	if len(o.Else) > 0 {
		var others []string
		for _, e := range o.Else {
			others = append(others, e.Policy+" "+when(e))
		}
		fmt.Fprintf(out, "Else     other schedulers: %s\n", strings.Join(others, "; "))
	}
	return nil
}

// when says in words when a job starts.
func when(o grants.Outlook) string {
	switch {
	case !o.Starts:
		return "not foreseeable"
	case o.Workers == 0:
		return "at once"
	case o.Wait == 0:
		return fmt.Sprintf("at once with %d workers", o.Workers)
	}
	return fmt.Sprintf("in %s with %d workers", time.Duration(o.Wait*float64(time.Second)).Round(time.Second), o.Workers)
}

// Account is what the jobs of each group have and have cost: GET /api/v1/groups. The groups and the idle share of shared hosts add up to
// the total. For a token that may not watch all groups it contains only the token's groups.
type Account struct {
	Groups      []Group `json:"groups"`
	Idle        string  `json:"idle_usd,omitempty"` // of shared hosts: what no job pays for (yet)
	IdlePerHour string  `json:"idle_usd_per_hour,omitempty"`
	Total       string  `json:"total_usd,omitempty"`
	PerHour     string  `json:"usd_per_hour,omitempty"`
}

// Group is the account of one group; group "" has the jobs that name none.
type Group struct {
	Group    string `json:"group"`
	Jobs     int    `json:"jobs"`
	Running  int    `json:"running"`
	Machines int    `json:"machines"`
	PerHour  string `json:"usd_per_hour"`
	Spent    string `json:"spent_usd"`
	Budget   string `json:"budget_usd,omitempty"`
	// What its jobs may have at a time; 0 = no limit.
	QuotaJobs     int    `json:"quota_jobs,omitempty"`
	QuotaMachines int    `json:"quota_machines,omitempty"`
	Held          string `json:"held,omitempty"` // why no job of the group is started
}

// Submission is a job to run: POST /api/v1/jobs, or to plan: POST /api/v1/plan.
type Submission struct {
	// Job is a job file. Files from the client are named by Uploaded.
	Job string `json:"job"`
	// Secrets are the values of the job's secrets. They are never in a response, a file of the run, or a log.
	Secrets map[string]string `json:"secrets,omitempty"`
	// User is who submits it, for lists and the audit log: an unverified name.
	User string `json:"user,omitempty"`
}

// Stop is POST /api/v1/jobs/ID/stop.
type Stop struct {
	Now bool   `json:"now,omitempty"`
	By  string `json:"by,omitempty"`
	// Program is a task of an array, such as task-3: only that task ends, for good.
	Program string `json:"program,omitempty"`
}

// Scale is POST /api/v1/jobs/ID/scale; the response consists of lines of Standing.
type Scale struct {
	Workers  int32  `json:"workers,omitempty"`
	Servers  int32  `json:"servers,omitempty"`
	Reliable int32  `json:"reliable,omitempty"`
	Restore  bool   `json:"restore,omitempty"`
	Pause    bool   `json:"pause,omitempty"`
	Resume   bool   `json:"resume,omitempty"`
	Wait     bool   `json:"wait,omitempty"`
	By       string `json:"by,omitempty"`
}

// Standing is the progress of a Scale. The last one may have an Error instead.
type Standing struct {
	Reached        bool   `json:"reached,omitempty"`
	Workers        uint32 `json:"workers"`
	Servers        uint32 `json:"servers"`
	Reliable       uint32 `json:"reliable"`
	WantedMachines uint32 `json:"wanted_machines,omitempty"`
	WantedVCPUs    uint32 `json:"wanted_vcpus,omitempty"`
	WantedServers  uint32 `json:"wanted_servers,omitempty"`
	WantedReliable uint32 `json:"wanted_reliable,omitempty"`
	Paused         bool   `json:"paused,omitempty"`
	Error          string `json:"error,omitempty"`
}

// Refusal is the body of every answer that is no success.
type Refusal struct {
	Error string `json:"error"`
}

// Uploaded starts the name of a file that was uploaded earlier with the same token, "uploaded:SHA256/NAME", by PUT
// /api/v1/inputs/SHA256/NAME. Several files are put in one folder by PUT /api/v1/inputs/SHA256 of their listing, with a line "SHA256 NAME"
// for each.
const Uploaded = "uploaded:"

// Files of a run that can be downloaded: GET /api/v1/jobs/ID/files/NAME.
var Files = []string{"journal.jsonl", "cloud.jsonl", "report.json", "report.html", "model.safetensors", "job.yaml", "submitted.yaml"}
