package main

import (
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
)

func newPauseCommand() *cobra.Command {
	return newChangeCommand(&pb.Change{Pause: true, By: "tierml pause"}, &cobra.Command{
		Use:   "pause RUN",
		Short: "Release the transient machines of a run, and keep its state on the reliable ones",
		Long: `Pause brings a run to rest: training stops after the clock that has begun, all transient machines are given up, and the reliable
machines keep the parameters and every split's place. They work on nothing until tierml resume, and cost what they cost. No
clock is repeated. A run without reliable machines cannot be paused: tierml stop ends it with a checkpoint.

` + namedRun + `.`,
		Example: `  tierml pause demo
  tierml pause runs/demo-1 --wait
  tierml pause demo --wait -o json`,
	}, nil, cli.Step{Command: "tierml resume RUN", Why: "training continues"})
}

func newResumeCommand() *cobra.Command {
	return newChangeCommand(&pb.Change{Resume: true, By: "tierml resume RUN"}, &cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a paused run",
		Long: `Resume ends a pause: the reliable machines train on at once, and as many transient machines as before are bought again.
A run that has ended is continued by tierml run --resume.

` + namedRun + `.`,
		Example: `  tierml resume demo
  tierml resume runs/demo-1 --wait`,
	}, nil, cli.Step{Command: "tierml top RUN", Why: "watch it"})
}
