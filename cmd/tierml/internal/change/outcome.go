package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// This file says what an intervention came to, in the forms of -o.

// standings shows where a change of numbers stands: people read each one, programs get the last.
type standings struct {
	out    io.Writer
	format string
	last   *call.Standing
}

func (s *standings) show(now call.Standing) {
	s.last = &now
	if cli.ForPeople(s.format) {
		printStanding(s.out, now)
	}
}

// finish writes the outcome of a change, once it is over. Of one that was refused there is nothing but the error.
func (s *standings) finish() error {
	if cli.ForPeople(s.format) || s.last == nil {
		return nil
	}
	return standingTable(*s.last).Write(s.out, s.format)
}

func standingTable(s call.Standing) table.Table {
	return table.Table{
		Data: struct {
			Reached        bool   `json:"reached"` // else asked for
			Workers        uint32 `json:"workers"`
			Servers        uint32 `json:"servers"`
			Reliable       uint32 `json:"reliable"`
			WantedMachines uint32 `json:"wanted_machines"`
			WantedVCPUs    uint32 `json:"wanted_vcpus,omitempty"`
			WantedServers  uint32 `json:"wanted_servers,omitempty"` // absent: as the stage has them
			WantedReliable uint32 `json:"wanted_reliable"`
			Paused         bool   `json:"paused"`
		}{s.Reached, s.Workers, s.Servers, s.Reliable, s.WantedMachines, s.WantedVCPUs, s.WantedServers, s.WantedReliable, s.Paused},
		Columns: []table.Column{{Name: "reached"}, {Name: "workers"}, {Name: "servers"}, {Name: "reliable"}, {Name: "wanted_machines"},
			{Name: "wanted_vcpus"}, {Name: "wanted_servers"}, {Name: "wanted_reliable"}, {Name: "paused"}},
		Rows: [][]table.Cell{{table.Of(s.Reached), table.Of(s.Workers), table.Of(s.Servers), table.Of(s.Reliable), table.Of(s.WantedMachines),
			table.Of(s.WantedVCPUs), table.Of(s.WantedServers), table.Of(s.WantedReliable), table.Of(s.Paused)}},
	}
}

// ending is how a run that was stopped has ended.
type ending struct {
	dashboard.Summary
	Before    bool `json:"ended_before"` // anybody asked
	Resumable bool `json:"resumable"`    // it can be resumed
}

// say prints it; dir is the run as commands take it.
func (e ending) say(out io.Writer, dir, format string) error {
	if !cli.ForPeople(format) {
		if err := e.table().Write(out, format); err != nil {
			return err
		}
	}
	if e.State == "killed" {
		return cli.Exit(cli.ExitFailed, fmt.Errorf("%s was killed, not ended in order: machines of cloud: ec2 may be left, which `tierml leaks` lists; "+
			"`tierml run --resume %s` continues it, and then it can be stopped", e.Run, dir))

	}
	if !cli.ForPeople(format) {
		return nil
	}
	had := "has ended"
	if e.Before {
		had = "had ended already"
	}
	fmt.Fprintf(out, "%s %s: %s at %s %s, %s spent. No machine of it is left.\n", e.Run, had, e.State, cmp.Or(e.Unit, "clock"), cli.OfAll(e.Clock, e.Clocks), cli.OrMinus(cli.Cents(e.Spent)))
	fmt.Fprintf(out, "Report   tierml report %s\n", dir)
	if e.Resumable {
		fmt.Fprintf(out, "Resume   tierml run --resume %s\n", dir)
	}
	return nil
}

func (e ending) table() table.Table {
	return table.Table{Data: e, Columns: []table.Column{{Name: "run"}, {Name: "state"}, {Name: "clock"}, {Name: "clocks"}, {Name: "spent"},
		{Name: "ended_before"}, {Name: "resumable"}},
		Rows: [][]table.Cell{{table.Of(e.Run), table.Of(e.State), table.Of(e.Clock), table.Of(e.Clocks), table.Of(e.Spent),
			table.Of(e.Before), table.Of(e.Resumable)}}}
}

// remoteScale passes a change on to a job server.
func remoteScale(ctx context.Context, client *call.Client, id string, change call.Scale, said *standings) error {
	return errors.Join(client.Scale(ctx, id, change, said.show), said.finish())
}
