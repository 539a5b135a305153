package jobmanager

import (
	"fmt"
	"strings"
	"time"

	"github.com/tierml/tierml/jobmanager/call"
)

// facts are what can be known about a job, even by a restarted job server: from its record, its run's journal, and whether a process holds
// the run's directory.
type facts struct {
	stop      bool   // a user requested its end
	again     bool   // a user requested resuming it after its end
	held      bool   // its run is active
	began     bool   // its journal has a line
	outcome   string // the journal's outcome; empty: none, the run was killed or has not begun
	why       string // and its reason
	fruitless int    // consecutive starts without progress
	refused   string // why its run did not start and will not; known only to its starter
	host      string // the fault of the host, a store or a cloud that ended its run; empty: the job's own
	outlasted bool   // which has lasted for longer than a job waits
}

// verdict is a job's state, and whether its run must be started or resumed.
type verdict struct {
	state call.State
	why   string
	start bool
}

// patience is the maximum number of consecutive starts without progress.
const patience = 5

// judge makes all decisions of the job server: the same facts give the same verdict before and after a restart.
//
// A fault of the host ends no job, whatever its run made of it, until it has lasted for long.
//
// The cases are ordered by certainty. An active run comes first, because its journal is incomplete. A request to resume precedes the
// journal's outcome, which it should undo, and is cleared by the start. The outcome precedes requests to stop and failures to start, as the
// run knew best why it ended. Only without an outcome, when the run was killed or never began, do requests and failed starts matter:
// machines may be left, and ending them takes a run.
func judge(f facts) verdict {
	hosts := f.host != "" && !f.stop && (f.outcome != "interrupted" || systemsWish(f.why))
	switch {
	case f.held && f.stop:
		return verdict{state: call.Stopping}
	case f.held:
		return verdict{state: call.Running}
	case f.again && !f.stop:
		return verdict{state: call.Queued, why: "resumes from its saved state", start: true}
	case f.outcome == "finished":
		return verdict{state: call.Finished, why: f.why}
	case hosts && !f.outlasted:
		return verdict{state: call.Queued, why: f.host + "; the job waits, and is tried again", start: true}
	case hosts:
		return verdict{state: call.Failed, why: fmt.Sprintf("%s, for more than %s; machines of a real cloud may be left: `tierml leaks`", f.host, hostPatience)}
	case f.outcome == "failed":
		return verdict{state: call.Failed, why: f.why}
	case f.outcome != "" && f.stop:
		return verdict{state: call.Stopped, why: f.why}
	case f.outcome != "" && systemsWish(f.why): // a reboot is no request to end this job
		return verdict{state: call.Queued, why: "ended by " + f.why + "; resumes from its saved state", start: true}
	case f.outcome != "":
		return verdict{state: call.Stopped, why: f.why}
	case f.refused != "":
		return verdict{state: call.Failed, why: f.refused}
	case f.stop && !f.began:
		return verdict{state: call.Stopped, why: "before it began"}
	case f.fruitless >= patience:
		return verdict{state: call.Failed, why: fmt.Sprintf("its run was killed, or failed to start, %d times in a row without getting further; "+
			"machines of a real cloud may be left: `tierml leaks`", f.fruitless)}
	case f.stop: // killed meanwhile: its machines may still be running, and ending them takes a run
		return verdict{state: call.Stopping, why: "its run was killed; it is restarted to end its machines", start: true}
	case f.began:
		return verdict{state: call.Queued, why: "its run was killed; resumes from its journal and checkpoints", start: true}
	}
	return verdict{state: call.Queued, start: true}
}

// systemsWish reports whether a run was ended by a system's shutdown, or because its output is no longer read.
func systemsWish(why string) bool {
	return strings.HasPrefix(why, "its output cannot be written") || strings.HasPrefix(why, "SIGTERM") || strings.HasPrefix(why, "SIGHUP")
}

// backOff returns how long a job waits before it is started again.
func backOff(fruitless int) time.Duration {
	if fruitless == 0 {
		return 0
	}
	return min(time.Second<<min(fruitless, 10), time.Minute)
}
