package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/jobmanager/call"
)

func newPauseCommand() *cobra.Command {
	return newRestCommand(&pb.Change{Pause: true, By: "tierml pause"}, &cobra.Command{
		Use:   "pause RUN",
		Short: "Release the transient machines of a run, and keep its state on the reliable ones",
		Long: `Pause brings a run to rest: training stops after the clock that has begun, all transient machines are given up, and the reliable
machines keep the parameters and every split's place. They work on nothing until tierml resume, and cost what they cost. No
clock is repeated. A run without reliable machines cannot be paused: tierml stop ends it with a checkpoint.

` + namedRun + `.`,
		Example: `  tierml pause demo
  tierml pause runs/demo-1 --wait
  tierml pause demo --wait -o json`,
	}, "resume", "training goes on")
}

func newResumeCommand() *cobra.Command {
	return newRestCommand(&pb.Change{Resume: true, By: "tierml resume"}, &cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a paused run",
		Long: `Resume ends a pause: the reliable machines train on at once, and as many transient machines as before are bought again.
A run that has ended is continued by tierml run --resume.

` + namedRun + `.`,
		Example: `  tierml resume demo
  tierml resume runs/demo-1 --wait`,
	}, "top", "watch it")
}

// newRestCommand makes a command of a request without numbers.
func newRestCommand(change *pb.Change, cmd *cobra.Command, next, why string) *cobra.Command {
	var format string
	var at remote
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("name one run: its directory, such as runs/demo-1, or the job's name")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkFormat(format); err != nil {
			return err
		}
		ctx, stop := untilInterrupted(cmd.Context())
		defer stop()
		client, err := at.client(cmd, args)
		if err != nil {
			return err
		}
		said := &standings{out: cmd.OutOrStdout(), format: format}
		if client != nil {
			defer client.Close()
			return remoteScale(ctx, client, meantJob(args), call.Scale{Pause: change.Pause, Resume: change.Resume, Wait: change.Wait, By: change.By}, said)
		}
		if err := scale(ctx, args[0], change, said); err != nil {
			return err
		}
		cli.Next(cmd, cli.Step{Command: "tierml " + next + " " + args[0], Why: why})
		return nil
	}
	cmd.Flags().BoolVar(&change.Wait, "wait", false, "wait until it is done")
	outputFlag(cmd, &format)
	at.flags(cmd)
	return cmd
}
