package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobmanager/enter"
	"github.com/tierml/tierml/watch/status"
)

const howItEnters = `It starts in the program's folder, with the program's variables but without its secrets. It uses Session Manager on EC2 and SSH through
Identity-Aware Proxy on Compute Engine, through the provider's command line; if that is not installed, it prints the command.

` + whichMachine

const whichMachine = `The default machine is the one that runs rank 0, or the only running task. --machine also accepts a prefix of a name.`

func NewExecCommand() *cobra.Command {
	var o machineSelector
	cmd := &cobra.Command{
		Use:   "exec RUN -- CMD...",
		Short: "Run a command on a program's machine, where the program runs",
		Long: `It exits with the command's code. For shell syntax, write -- bash -c 'ls | wc -l'.

` + howItEnters,
		Example: `  tierml exec finetune -- nvidia-smi
  tierml exec finetune-1 --rank 1 -- ls -l ckpt
  tierml exec sweep --task 3 -- bash -c 'tail -n 5 $TIERML_STATE/log'`,
		Args: cli.Arguments(2, -1, "name a run and a command, such as: tierml exec finetune-1 -- ls"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.enter(cmd, args[:1], args[1:]) },
	}
	o.flags(cmd)
	return cmd
}

func NewSSHCommand() *cobra.Command {
	var o machineSelector
	cmd := &cobra.Command{
		Use:   "ssh RUN",
		Short: "Open a shell on a program's machine, where the program runs",
		Long:  whichMachine,
		Example: `  tierml ssh finetune
  tierml ssh sweep --task 3`,
		Args: cli.Arguments(1, 1, "name one run, such as finetune-1; `tierml ps` lists them"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.enter(cmd, args, nil) },
	}
	o.flags(cmd)
	return cmd
}

// machineSelector has the flags that select a machine of a run.
type machineSelector struct {
	at         target.Flags
	rank, task int // negative: not given
	machine    string
}

func (o *machineSelector) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&o.rank, "rank", -1, "the machine of this `rank` in a gang")
	cmd.Flags().IntVar(&o.task, "task", -1, "the machine that runs this `task` in an array")
	cmd.Flags().StringVar(&o.machine, "machine", "", "the machine with this `name`, whatever it runs")
	cmd.MarkFlagsMutuallyExclusive("rank", "task", "machine")
	o.at.Flags(cmd)
}

// enter runs a command on a machine; by default a shell.
func (o *machineSelector) enter(cmd *cobra.Command, run, command []string) error {
	m, err := o.find(cmd, run)
	switch {
	case err != nil:
		return err
	case m.Place.Cloud != config.CloudLocal:
		return enter.Elsewhere(m.Place, command, cmd.OutOrStdout())
	}
	return enter.Here(m, command)
}

// find finds the machine, which belongs to a provider or is a process of this host.
func (o *machineSelector) find(cmd *cobra.Command, args []string) (m enter.Selected, err error) {
	err = o.at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
		m, err = o.findIn(ctx, runs, target.First(args))
		return err
	})
	return m, err
}

func (o *machineSelector) findIn(ctx context.Context, runs target.Runs, run string) (m enter.Selected, err error) {
	var job call.Job
	if m.Run, job, err = runs.Get(ctx, run); err != nil {
		return m, err
	}
	if target.Ended(job) {
		return m, cli.Usage(fmt.Errorf("%s has ended: its machines are gone. `tierml state %[1]s --into DIR` copies what its programs have saved, `tierml logs %[1]s` has what they printed", m.Run))
	}
	var text bytes.Buffer
	if err := runs.File(ctx, m.Run, rundir.JobFile, &text); err != nil {
		return m, err
	}
	m.Job = text.Bytes()
	var entries []journal.Entry
	if err := runs.Events(ctx, m.Run, false, func(e journal.Entry) { entries = append(entries, e) }, func() {}); err != nil {
		return m, err
	}
	if m.Machine, err = o.choose(m.Run, entries); err != nil {
		return m, cli.Usage(err)
	}
	if m.Place, err = enter.PlaceOfMachine(m.Job, m.Machine); err != nil || m.Place.Cloud != config.CloudLocal {
		return m, err
	}
	m.Home, err = enter.HomeOf(ctx, job.Cloud, m.Machine.ID)
	if runs.Address() != "" && errors.Is(err, enter.ErrNotHere) {
		err = cli.Usage(fmt.Errorf("the machines of %s are processes of the job server's host and user: run tierml there", m.Run))
	}
	return m, err
}

// choose finds the selected machine.
func (o *machineSelector) choose(run string, entries []journal.Entry) (enter.Listed, error) {
	rows, err := status.ProgramsOf(run, entries, nil)
	if err != nil {
		return enter.Listed{}, err
	}
	machines := enter.MachinesOf(entries, rows)
	if o.machine != "" {
		return enter.ChooseMachine(run, o.machine, machines)
	}
	wanted := ""
	switch {
	case o.rank >= 0:
		wanted = fmt.Sprintf("rank-%d", o.rank)
	case o.task >= 0:
		wanted = fmt.Sprintf("task-%d", o.task)
	}
	var running []string
	for _, r := range rows {
		switch {
		case r.Program == wanted && r.Machine == "":
			return enter.Listed{}, fmt.Errorf("%s of %s is %s: no machine runs it now; `tierml state %[2]s` lists those that run", wanted, run, r.Status)
		case r.Machine != "" && (wanted == "" || r.Program == wanted):
			running = append(running, r.Program)
		}
	}
	switch {
	case len(running) == 0 && wanted != "" && !slices.ContainsFunc(rows, func(r *status.ProgramRow) bool { return r.Program == wanted }):
		return enter.Listed{}, fmt.Errorf("%s has no %s that has run; `tierml state %[1]s` lists its programs", run, wanted)
	case len(running) == 0:
		return enter.Listed{}, fmt.Errorf("no program of %s runs now: machines are being bought or prepared; --machine enters one of %s", run, enter.ListMachines(machines))
	case len(running) > 1 && strings.HasPrefix(running[0], "task-"):
		return enter.Listed{}, fmt.Errorf("%s runs %d tasks now; name one, such as --task %s, of %s", run, len(running), strings.TrimPrefix(running[0], "task-"), strings.Join(running, ", "))
	}
	for _, m := range machines {
		if m.Runs == running[0] && m.Gone == "" {
			return m, nil
		}
	}
	return enter.Listed{}, fmt.Errorf("the machine of %s has just ended; a replacement is on its way", running[0])
}
