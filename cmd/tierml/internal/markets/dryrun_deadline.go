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
	f.StringSliceVar(&o.slacks, "slack", []string{"1.1", "1.25", "1.5", "2"}, "deadlines, in `multiples` of the work (--availability) or of a job's time alone, in turn (--jobs)")
	f.DurationSliceVar(&o.changeovers, "changeover", []time.Duration{6 * time.Minute, 12 * time.Minute}, "with --availability: `times` from buying a fleet until it works")
	f.BoolVar(&o.together, "together", false, "with --availability: all recordings are the pools of one job")
	f.Float64Var(&o.spotShare, "spot-share", sweep.SpotShare, "with --availability: spot price as a `share` of on-demand, where none was recorded")
}

// args wants a job file, or recordings or arrivals in its place.
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

// deadlineRules are those that Can't Be Late (NSDI 24) reckons with: by the second, nothing free.
const deadlineRules = "gce-spot"

// deadlines compares policies on recordings.
func (o dryRunOptions) deadlines(ctx context.Context, out io.Writer) error {
	if err := cli.CheckFormat(o.format); err != nil {
		return err
	}
	write := writeDeadlineTable
	if !cli.ForPeople(o.format) || o.format == table.Wide {
		write = func(w io.Writer, cells []sweep.Cell) error { return deadlineTable(cells).Write(w, o.format) }
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

// simulating runs a study under a bar, until it is interrupted.
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

// multiples reads --slack.
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

// deadlineTable has a row for each recording, slack, changeover and policy.
func deadlineTable(cells []sweep.Cell) table.Table {
	t := table.Table{Data: cells, Columns: []table.Column{
		{Name: "recording", Title: "RECORDING"}, {Name: "slack", Title: "SLACK"}, {Name: "changeover_hours", Title: "CHANGEOVER H"},
		{Name: "policy", Title: "POLICY"}, {Name: "rules", Title: "RULES"}, {Name: "work_hours", Title: "WORK H"}, {Name: "starts", Title: "STARTS"},
		{Name: "missed", Title: "MISSED"}, {Name: "cost_mean", Title: "COST"}, {Name: "cost_sd", Title: "SD"}, {Name: "cost_p95", Title: "P95"},
		{Name: "machines_mean", Title: "MACHINES"}, {Name: "evictions_mean", Title: "EVICTIONS"},
		{Name: "egress_mean", Title: "EGRESS"},
	}}
	number := func(x float64) table.Cell {
		return table.Cell{Text: trim(x), Value: strconv.FormatFloat(x, 'g', 8, 64)}
	}
	for _, c := range cells {
		t.Rows = append(t.Rows, []table.Cell{table.Of(c.Recording), number(c.Slack), number(c.Changeover), table.Of(c.Policy), table.Of(c.Rules), number(c.Work),
			table.Of(c.Starts), table.Of(c.Missed), number(c.CostMean), number(c.CostSD), number(c.CostP95), number(c.Machines), number(c.Evictions), number(c.Egress)})
	}
	return t
}

// writeDeadlineTable has a line for each recording, changeover and slack, and compares every policy with the last one.
func writeDeadlineTable(out io.Writer, cells []sweep.Cell) error {
	policies := 1
	for policies < len(cells) && cells[policies].Policy != cells[0].Policy {
		policies++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%g hours of work by a deadline, by the rules %s; costs in hours of the fleet on demand\n\n", cells[0].Work, cells[0].Rules)
	fmt.Fprintf(&b, "%-28s %5s %6s %6s", "RECORDING", "SLACK", "CHANGE", "STARTS")
	for _, c := range cells[:policies] {
		fmt.Fprintf(&b, " %*s", columnWidth(c.Policy), strings.ToUpper(c.Policy))
	}
	b.WriteString("\n")
	sums := make([]float64, policies)
	missed, worst, egress := make([]int, policies), make([]float64, policies), make([]float64, policies)
	for i := 0; i < len(cells); i += policies {
		row := cells[i : i+policies]
		fmt.Fprintf(&b, "%-28s %5.4g %5.3gm %6d", shorten(row[0].Recording, 28), row[0].Slack, row[0].Changeover*60, row[0].Starts)
		last := row[policies-1].CostMean
		for j, c := range row {
			text := fmt.Sprintf("%.2f", c.CostMean)
			if j < policies-1 {
				text += fmt.Sprintf(" %+.1f%%", 100*(c.CostMean/last-1))
				if excess := c.CostMean/last - 1; i == 0 || excess > worst[j] {
					worst[j] = excess
				}
			}
			if c.Missed > 0 {
				text += fmt.Sprintf(" %d missed", c.Missed)
			}
			fmt.Fprintf(&b, " %*s", columnWidth(c.Policy), text)
			sums[j] += c.CostMean
			missed[j] += c.Missed
			egress[j] += c.Egress
		}
		b.WriteString("\n")
	}
	n := float64(len(cells) / policies)
	fmt.Fprintf(&b, "\nMean of the %g lines:\n", n)
	for j, c := range cells[:policies] {
		fmt.Fprintf(&b, "  %-18s %6.2f, deadlines missed: %d", c.Policy, sums[j]/n, missed[j])
		if egress[j] > 0 {
			fmt.Fprintf(&b, ", of it %.2f for moves between regions", egress[j]/n)
		}
		if j < policies-1 {
			fmt.Fprintf(&b, "; %+.1f%% against %s, at worst %+.1f%%", 100*(sums[j]/sums[policies-1]-1), cells[policies-1].Policy, 100*worst[j])
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func columnWidth(policy string) int { return max(len(policy), 14) }

// shorten keeps the end of a name, which differs more.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "..." + s[len(s)-most+3:]
}
