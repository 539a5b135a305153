package change

import (
	"cmp"
	"fmt"
	"io"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// This file reports the result of an intervention in the formats of -o.

func standingTable(s call.Standing) table.Table {
	return table.Table{
		Data: struct {
			Reached        bool   `json:"reached"` // false: requested only
			Workers        uint32 `json:"workers"`
			Servers        uint32 `json:"servers"`
			Reliable       uint32 `json:"reliable"`
			WantedMachines uint32 `json:"wanted_machines"`
			WantedVCPUs    uint32 `json:"wanted_vcpus,omitempty"`
			WantedServers  uint32 `json:"wanted_servers,omitempty"` // absent: the stage's number
			WantedReliable uint32 `json:"wanted_reliable"`
			Paused         bool   `json:"paused"`
		}{s.Reached, s.Workers, s.Servers, s.Reliable, s.WantedMachines, s.WantedVCPUs, s.WantedServers, s.WantedReliable, s.Paused},
		Columns: []table.Column{{Name: "reached"}, {Name: "workers"}, {Name: "servers"}, {Name: "reliable"}, {Name: "wanted_machines"},
			{Name: "wanted_vcpus"}, {Name: "wanted_servers"}, {Name: "wanted_reliable"}, {Name: "paused"}},
		Rows: [][]table.Cell{{table.Of(s.Reached), table.Of(s.Workers), table.Of(s.Servers), table.Of(s.Reliable), table.Of(s.WantedMachines),
			table.Of(s.WantedVCPUs), table.Of(s.WantedServers), table.Of(s.WantedReliable), table.Of(s.Paused)}},
	}
}

// ending describes how a stopped run ended.
type ending struct {
	dashboard.Summary
	Before    bool `json:"ended_before"` // before the request
	Resumable bool `json:"resumable"`
}

// writeEnd prints how a run ended.
func writeEnd(end target.End, format string, out io.Writer) error {
	job := end.Job
	if !cli.ForPeople(format) {
		if err := (ending{job.Summary, end.Before, end.Resumable}).table().Write(out, format); err != nil {
			return err
		}
	}
	if job.State == "killed" {
		return cli.Exit(cli.ExitFailed, fmt.Errorf("%s was killed, not ended cleanly: machines of cloud: ec2 may be left, which `tierml leaks` lists; "+
			"`tierml run --resume %s` continues it, and then it can be stopped", job.Run, end.Name))
	}
	switch {
	case !cli.ForPeople(format):
		return nil
	case job.Submitted != nil && job.Clock == 0 && job.Spent == "": // it has not started
		_, err := fmt.Fprintf(out, "%s is %s%s.\n", job.Run, job.State, cli.Because(job.Why))
		return err
	}
	had := "has ended"
	if end.Before {
		had = "had ended already"
	}
	fmt.Fprintf(out, "%s %s: %s at %s %s, %s spent. No machine of it is left.\n", job.Run, had, job.State, cmp.Or(job.Unit, "clock"), cli.OfAll(job.Clock, job.Clocks), cli.OrMinus(cli.Cents(job.Spent)))
	fmt.Fprintf(out, "Report   tierml report %s\n", end.Name)
	if end.Resumable {
		fmt.Fprintf(out, "Resume   tierml run --resume %s\n", end.Name)
	}
	return nil
}

func (e ending) table() table.Table {
	return table.Table{Data: e, Columns: []table.Column{{Name: "run"}, {Name: "state"}, {Name: "clock"}, {Name: "clocks"}, {Name: "spent"},
		{Name: "ended_before"}, {Name: "resumable"}},
		Rows: [][]table.Cell{{table.Of(e.Run), table.Of(e.State), table.Of(e.Clock), table.Of(e.Clocks), table.Of(e.Spent),
			table.Of(e.Before), table.Of(e.Resumable)}}}
}
