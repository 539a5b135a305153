package markets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

// deadlineOptions are the flags of dry-run that compare policies on recorded availability, without a job file.
type deadlineOptions struct {
	availability []string
	slacks       []string
	changeovers  []time.Duration
	spotShare    float64
	together     bool
}

func (o *deadlineOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.availability, "availability", nil, "recordings of availability, in SkyPilot's format, as `files` FILE or FILE=ZONE/TYPE; no job file")
	f.StringSliceVar(&o.slacks, "slack", []string{"1.1", "1.25", "1.5", "2"}, "deadlines, in `multiples` of the work (--availability) or, in turn, of each job's time alone (--jobs)")
	f.DurationSliceVar(&o.changeovers, "changeover", []time.Duration{6 * time.Minute, 12 * time.Minute}, "with --availability: `times` from buying a fleet until it works")
	f.BoolVar(&o.together, "together", false, "with --availability: treat all recordings as pools of one job")
	f.Float64Var(&o.spotShare, "spot-share", sweep.SpotShare, "with --availability: spot price as a `share` of on-demand")
}

// args requires a job file, or recordings or arrivals instead.
func (o *dryRunOptions) args(cmd *cobra.Command, args []string) error {
	switch instead := len(o.deadline.availability) > 0; {
	case o.shared.jobs == "" && cmd.Flags().Changed("count"):
		return errors.New("--count is of --jobs; for the number of transient machines write --machines")
	case instead && o.shared.jobs != "":
		return errors.New("--availability is for one job, and --jobs for many: write one of them")
	case !instead && o.shared.jobs == "":
		return cli.OneJobFile(cmd, args)
	case len(args) > 0:
		return errors.New("--availability and --jobs run jobs of their own: leave the job file out")
	}
	return nil
}

// deadlineRules are the rules of Can't Be Late (NSDI 24): billed by the second, nothing free.
const deadlineRules = "gce-spot"

// deadlines compares policies on recordings.
func (o dryRunOptions) deadlines(ctx context.Context, out io.Writer) error {
	if err := cli.CheckFormat(o.format); err != nil {
		return err
	}
	write := show.WriteDeadlineTable
	if !cli.ForPeople(o.format) || o.format == table.Wide {
		write = func(w io.Writer, cells []sweep.Cell) error { return show.DeadlineTable(cells).Write(w, o.format) }
	}
	study, err := o.deadlineStudy()
	if err != nil {
		return err
	}
	cells, err := simulating(ctx, "Simulating runs", study.Run)
	if err != nil {
		return err
	}
	if err := write(out, cells); err != nil {
		return fmt.Errorf("printing the results: %w", err)
	}
	return nil
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

func (o dryRunOptions) deadlineStudy() (d sweep.Deadlines, err error) {
	d = sweep.Deadlines{Policies: o.policies, Work: 24 * time.Hour, Changeovers: o.deadline.changeovers, Seed: o.seed,
		Together: o.deadline.together}
	if d.Rules, err = market.Rules(cmp.Or(o.rules, deadlineRules)); err != nil {
		return d, cli.Usage(err)
	}
	for _, name := range o.policies {
		switch policy, err := bidding.ByName(name); {
		case err != nil:
			return d, cli.Usage(err)
		default:
			if _, ok := policy.(bidding.ByRestart); !ok {
				return d, cli.Usage(fmt.Errorf("--policy %s: with --availability there is no reliable tier; write deadline, skynomad, uniform-progress or checkpoint", name))
			}
		}
	}
	if d.Slacks, err = o.deadline.multiples(); err != nil {
		return d, err
	}
	for _, change := range o.deadline.changeovers {
		if change <= 0 {
			return d, cli.Usage(fmt.Errorf("--changeover %s: write times above 0, such as 6m,12m", change))
		}
	}
	switch {
	case len(o.hours) > 1:
		return d, cli.Usage(errors.New("--availability takes one --hours"))
	case len(o.hours) == 1:
		hours, err := strconv.ParseFloat(o.hours[0], 64)
		if err != nil || !(hours > 0) || hours > 10000 {
			return d, cli.Usage(fmt.Errorf("--hours %q: write a number above 0", o.hours[0]))
		}
		d.Work = time.Duration(hours * float64(time.Hour)).Round(time.Second)
	}
	if o.starts != "every" {
		if d.Starts, err = strconv.Atoi(cmp.Or(o.starts, "200")); err != nil || d.Starts < 1 {
			return d, cli.Usage(fmt.Errorf("--starts %q: with --availability write every (tick) or a number", o.starts))
		}
	}
	var declared config.Checkpoint
	if err := declared.Set(o.checkpoint); err != nil {
		return d, cli.Usage(fmt.Errorf("--checkpoint: %w", err))
	}
	if _, size := o.checkpoint["model"]; len(o.checkpoint) > 1 || !size && len(o.checkpoint) > 0 {
		return d, cli.Usage(errors.New("--availability takes model alone of --checkpoint: the rest is part of the --changeover"))
	}
	d.State = declared.Model.MiB << 20
	if !(o.deadline.spotShare > 0) {
		return d, cli.Usage(fmt.Errorf("--spot-share %g: write a number above 0", o.deadline.spotShare))
	}
	for _, name := range o.deadline.availability {
		r, err := o.readRecording(name)
		if err != nil {
			return d, err
		}
		d.Recordings = append(d.Recordings, r)
	}
	return d, nil
}

// readRecording reads FILE or FILE=ZONE/TYPE.
func (o dryRunOptions) readRecording(arg string) (sweep.Recording, error) {
	file, pool, _ := strings.Cut(arg, "=")
	r, err := sweep.ReadRecording(file, pool, o.deadline.spotShare)
	switch {
	case errors.Is(err, sweep.ErrNoPool):
		return r, cli.Usage(fmt.Errorf("--availability %s: %w; write FILE=ZONE/TYPE", arg, err))
	case err != nil:
		return r, fmt.Errorf("--availability: %w", err)
	}
	return r, nil
}

// multiples parses --slack.
func (o deadlineOptions) multiples() (all []float64, err error) {
	for _, text := range o.slacks {
		slack, err := strconv.ParseFloat(text, 64)
		if err != nil || !(slack > 1) || slack > 100 {
			return nil, cli.Usage(fmt.Errorf("--slack %q: write numbers above 1, such as 1.1,1.5", text))
		}
		all = append(all, slack)
	}
	return all, nil
}
