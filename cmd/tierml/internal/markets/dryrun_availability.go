package markets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/show"
	"github.com/tierml/tierml/sim/sweep"
)

// availabilityOptions are the options of dry-run availability.
type availabilityOptions struct {
	policies    []string
	rules       string
	slacks      []string
	changeovers []time.Duration
	spotShare   float64
	together    bool
	state       string
	hours       float64
	starts      string
	seed        uint64
	format      string
}

func newAvailabilityCommand() *cobra.Command {
	var o availabilityOptions
	cmd := &cobra.Command{
		Use:   "availability FILE...",
		Short: "Compare policies for deadlines on recordings of availability",
		Long: `One fleet without a reliable tier has a deadline. Files have SkyPilot's format: FILE, or FILE=ZONE/TYPE if the name
does not say it. See docs/dry-run.md#deadlines.`,
		Example: `  tierml dry-run availability us-west-2a_v100_1.json.gz --starts every
  tierml dry-run availability a.json.gz=us-east-2b/p3.2xlarge --slack 1.25 --changeover 6m -o json`,
		Args: cli.Arguments(1, -1, "name recordings of availability, such as us-west-2a_v100_1.json.gz"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runAvailability(cmd.Context(), o, args, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.policies, "policy", []string{"deadline", "uniform-progress"}, "`policies` to compare")
	f.StringVar(&o.rules, "rules", deadlineRules, "billing rule `book`")
	slackFlag(f, &o.slacks, "deadlines, in `multiples` of the work")
	f.DurationSliceVar(&o.changeovers, "changeover", []time.Duration{6 * time.Minute, 12 * time.Minute}, "`times` from buying a fleet until it works")
	f.Float64Var(&o.spotShare, "spot-share", sweep.SpotShare, "spot price as a `share` of on-demand")
	f.BoolVar(&o.together, "together", false, "treat all recordings as pools of one job")
	f.StringVar(&o.state, "state", "", "with --together: `size` of the state, such as 50GB")
	f.Float64Var(&o.hours, "hours", 24, "work, in `hours` of the on-demand fleet")
	f.StringVar(&o.starts, "starts", "200", "`number` of starts, or every (tick)")
	f.Uint64Var(&o.seed, "seed", 1, "`seed` of random starts")
	cli.OutputFlag(cmd, &o.format)
	cli.Moved(cmd, "--state SIZE", "checkpoint")
	return cmd
}

// slackFlag adds --slack.
func slackFlag(f *pflag.FlagSet, slacks *[]string, usage string) {
	f.StringSliceVar(slacks, "slack", []string{"1.1", "1.25", "1.5", "2"}, usage)
}

// deadlineRules are the rules of Can't Be Late (NSDI 24): billed by the second, nothing free.
const deadlineRules = "gce-spot"

// runAvailability compares policies on recordings.
func runAvailability(ctx context.Context, o availabilityOptions, files []string, out io.Writer) error {
	study, err := o.study(files)
	if err != nil {
		return err
	}
	cells, err := simulating(ctx, "Simulating runs", study.Run)
	if err != nil {
		return err
	}
	if cli.ForPeople(o.format) && o.format != table.Wide {
		return show.WriteDeadlineTable(out, cells)
	}
	return show.DeadlineTable(cells).Write(out, o.format)
}

// simulating runs a study with a progress bar, until it is interrupted.
func simulating[T any](ctx context.Context, what string, run func(context.Context, func(done, total int)) ([]T, error)) ([]T, error) {
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	bar := progress.Start(ctx, what, 0, progress.Things)
	defer bar.Done()
	defer prepare.LittleGarbage()()
	cells, err := run(ctx, bar.Set)
	if errors.Is(err, context.Canceled) {
		return nil, cli.Exit(cli.ExitInterrupted, errors.New("interrupted"))
	}
	return cells, err
}

func (o availabilityOptions) study(files []string) (d sweep.Deadlines, err error) {
	d = sweep.Deadlines{Policies: o.policies, Work: time.Duration(o.hours * float64(time.Hour)).Round(time.Second), Changeovers: o.changeovers,
		Seed: o.seed, Together: o.together}
	switch {
	case !(o.hours > 0) || o.hours > 10000:
		return d, cli.Usage(fmt.Errorf("--hours %g: write a number above 0", o.hours))
	case !(o.spotShare > 0):
		return d, cli.Usage(fmt.Errorf("--spot-share %g: write a number above 0", o.spotShare))
	}
	if d.Rules, err = market.Rules(o.rules); err != nil {
		return d, cli.Usage(err)
	}
	for _, name := range o.policies {
		policy, err := bidding.ByName(name)
		if err != nil {
			return d, cli.Usage(err)
		}
		if _, ok := policy.(bidding.ByRestart); !ok {
			return d, cli.Usage(fmt.Errorf("--policy %s: there is no reliable tier; write deadline, skynomad, uniform-progress or checkpoint", name))
		}
	}
	if d.Slacks, err = multiples(o.slacks); err != nil {
		return d, err
	}
	for _, change := range o.changeovers {
		if change <= 0 {
			return d, cli.Usage(fmt.Errorf("--changeover %s: write times above 0, such as 6m,12m", change))
		}
	}
	if o.starts != "every" {
		if d.Starts, err = strconv.Atoi(o.starts); err != nil || d.Starts < 1 {
			return d, cli.Usage(fmt.Errorf("--starts %q: write every (tick) or a number", o.starts))
		}
	}
	if o.state != "" {
		var declared config.Checkpoint
		if err := declared.Set(map[string]string{"model": o.state}); err != nil {
			return d, cli.Usage(fmt.Errorf("--state: %w", err))
		}
		d.State = declared.Model.MiB << 20
	}
	for _, name := range files {
		file, pool, _ := strings.Cut(name, "=")
		r, err := sweep.ReadRecording(file, pool, o.spotShare)
		if errors.Is(err, sweep.ErrNoPool) {
			return d, cli.Usage(fmt.Errorf("%s: %w; write FILE=ZONE/TYPE", name, err))
		}
		if err != nil {
			return d, err
		}
		d.Recordings = append(d.Recordings, r)
	}
	return d, nil
}

// multiples parses --slack.
func multiples(texts []string) (all []float64, err error) {
	for _, text := range texts {
		slack, err := strconv.ParseFloat(text, 64)
		if err != nil || !(slack > 1) || slack > 100 {
			return nil, cli.Usage(fmt.Errorf("--slack %q: write numbers above 1, such as 1.1,1.5", text))
		}
		all = append(all, slack)
	}
	return all, nil
}
