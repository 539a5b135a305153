package change

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/scaling"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/enter"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/drill"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/watch/status"
)

func NewDrillCommand() *cobra.Command {
	var o DrillOptions
	cmd := &cobra.Command{
		Use:   "drill [RUN]",
		Short: "Warn, evict or kill machines of a run, and measure how long training stalls",
		Long: `It prints events until training continues. The disturbances:
  rebalance  a recommendation to leave
  evict      an eviction with the usual notice
  evict-now  an eviction without notice
  kill       a crash: no notice, no eviction
  move       no machine is harmed: every partition of the model moves to another server
Real machines can only be killed and, on Compute Engine, evicted; drill asks first.
` + cli.WhichRun,
		Example: `  tierml drill
  tierml drill demo-1 --do kill
  tierml drill demo-1 --do move
  tierml drill demo --do evict-now --servers half
  tierml drill demo --do evict --target all --of us-west-1a/c3.xlarge -o json`,
		Args: cli.OneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return cli.Usage(err)
			}
			dir, err := target.Find(target.First(args))
			if err != nil {
				return err
			}
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			if err := o.Run(ctx, dir, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return err
			}
			cli.Next(cmd, cli.Step{Command: "tierml events -f " + rundir.Relative(dir), Why: "what happens from here on"})
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Do, "do", drill.Evict, "the `disturbance`: "+strings.Join(drill.Words(), ", "))
	f.StringSliceVar(&o.Choice.IDs, "machine", nil, "`names` of machines, or prefixes, as tierml events shows them")
	f.StringVar(&o.Choice.Which, "target", "oldest", "which transient `machines`: oldest, newest, random or all")
	f.IntVar(&o.Choice.Count, "count", 1, "`number` of machines of --target")
	f.StringVar(&o.Choice.Of, "of", "", "only machines of this `pool`: a type, a zone, or zone/type")
	f.StringVar(&o.Choice.Servers, "servers", "", "instead of --target, a `share` of the ActivePSs: half or all")
	f.DurationVar(&o.Within, "within", 2*time.Minute, "how long to wait for training to continue")
	f.Uint64Var(&o.seed, "seed", 1, "`seed` of --target random")
	f.BoolVar(&o.atOnce, "at-once", false, "with --do move: do not wait for a moment when workers compute")
	f.BoolVar(&o.faultIn, "fault-in", false, "with --do move: the new owner serves immediately")
	f.BoolVarP(&o.yes, "yes", "y", false, "disturb a real cloud's machines without asking")
	cli.OutputFlag(cmd, &o.Format)
	cli.CompleteFlag(cmd, "do", drill.Words()...)
	cli.CompleteFlag(cmd, "target", "oldest", "newest", "random", "all")
	cli.CompleteFlag(cmd, "servers", "half", "all")
	return cmd
}

type DrillOptions struct {
	Do     string
	Choice drill.Aim
	Within time.Duration
	seed   uint64
	yes    bool
	atOnce bool
	// faultIn: see elasticity.FaultIn.
	faultIn bool
	Format  string
}

func (o DrillOptions) Check() error {
	switch {
	case !slices.Contains(drill.Words(), o.Do):
		return fmt.Errorf("--do %q does not exist; write %s", o.Do, strings.Join(drill.Words(), ", "))
	case o.Choice.Servers != "" && o.Choice.Servers != "half" && o.Choice.Servers != "all":
		return fmt.Errorf("--servers %q: write half or all", o.Choice.Servers)
	case !slices.Contains([]string{"oldest", "newest", "random", "all"}, o.Choice.Which):
		return fmt.Errorf("--target %q: write oldest, newest, random or all", o.Choice.Which)
	case o.Choice.Count < 1:
		return fmt.Errorf("--count %d: write 1 or more", o.Choice.Count)
	case o.atOnce && o.Do != drill.Move:
		return fmt.Errorf("--at-once goes with --do move")
	case o.faultIn && o.Do != drill.Move:
		return errors.New("--fault-in goes with --do move")
	case o.faultIn && o.atOnce:
		return errors.New("--fault-in and --at-once exclude each other")
	case o.Do == drill.Move && (len(o.Choice.IDs) > 0 || o.Choice.Servers != "" || o.Choice.Of != "" || o.Choice.Count > 1):
		return errors.New("--do move harms no machine: leave --machine, --servers, --of and --count out")
	case o.Within <= 0:
		return fmt.Errorf("--within %v: write a time above zero, such as 2m", o.Within)
	}
	return nil
}

// enoughClocks is how many clocks show the usual speed.
const enoughClocks = 8

var errDrilled = errors.New("all is known")

// Run waits until machines take part, harms some, and watches until training continues.
func (o DrillOptions) Run(ctx context.Context, dir string, in io.Reader, out, errOut io.Writer) error {
	if !rundir.Held(dir) {
		return cli.Usage(fmt.Errorf("%s has ended: a drill needs a running run; `tierml run` starts one", rundir.Relative(dir)))
	}
	late := fmt.Errorf("nothing was done within %v: the run has hardly begun", o.Within)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Within, late)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch, lines := drill.New(), status.New()
	begun, clocks := false, 0
	var refused error
	show := func(news []words.Line) {
		for _, l := range news {
			if begun && cli.ForPeople(o.Format) {
				fmt.Fprintf(out, "%s  %s\n", l.T.UTC().Format("15:04:05"), l)
			}
		}
	}
	err := runs.Follow(ctx, dir, func(e journal.Entry) {
		if e.Kind == journal.ClockDone {
			clocks++
		}
		watch.Feed(e)
		show(lines.Feed(e))
	}, func() {
		show(lines.Flush())
		if begun {
			if watch.Settled() {
				stop(errDrilled)
			}
			return
		}
		machines, err := o.choose(watch)
		switch {
		case watch.Finished():
			stop(fmt.Errorf("%s ended before anything was done", rundir.Relative(dir)))
		case clocks < enoughClocks && !watch.Runs() || err != nil && len(o.Choice.IDs) == 0 && o.Choice.Of == "":
			return // it has hardly started
		case err != nil:
			stop(cli.Usage(err))
		case watch.Runs() && o.Do == drill.Move:
			stop(cli.Usage(fmt.Errorf("%s runs a user program, which has no partitions to move", rundir.Relative(dir))))
		default:
			harm, err := o.harm(dir, in, out)
			if err == nil {
				err = harm(ctx, machines)
			}
			if err != nil && o.Do == drill.Move {
				refused = err // until there are machines that could serve
				return
			}
			if err != nil {
				stop(err)
				return
			}
			begun = true
			watch.Begin(o.Do, machines, watch.Now())
			for _, m := range machines {
				fmt.Fprintf(errOut, "%s: %s of %s\n", o.Do, m.ID, m.Pool)
			}
		}
	})
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, errDrilled) && !begun {
		if refused != nil && errors.Is(cause, late) {
			return fmt.Errorf("%w: %w", cause, refused)
		}
		if _, why := o.choose(watch); why != nil && errors.Is(cause, late) {
			return fmt.Errorf("%w: %w", cause, why)
		}
		return cause
	}
	if err != nil && cause == nil {
		return err
	}
	return o.conclude(watch.Report(), out)
}

func (o DrillOptions) choose(watch *drill.Watch) ([]drill.Machine, error) {
	if o.Do == drill.Move {
		return nil, nil
	}
	return watch.Choose(o.Choice, o.seed)
}

// move moves every partition to another server.
func (o DrillOptions) move(ctx context.Context, dir string) error {
	change := &pb.Change{MoveAll: elasticity.InWindow, By: "tierml drill"}
	switch {
	case o.atOnce:
		change.MoveAll = elasticity.AtOnce
	case o.faultIn:
		change.MoveAll = elasticity.FaultIn
	}
	return scaling.Ask(ctx, dir, change, func(*pb.Standing) {})
}

func (o DrillOptions) conclude(r drill.Report, out io.Writer) error {
	var err error
	switch o.Format {
	case table.JSON:
		err = table.WriteJSON(out, r)
	case table.CSV:
		err = drillTable(r).Write(out, table.CSV)
	default:
		err = r.WriteText(out)
	}
	if err == nil && !r.WentOn {
		return cli.Exit(cli.ExitFailed, errors.New("training did not continue; `tierml events -f` and `tierml logs` show what it is doing"))
	}
	return err
}

func drillTable(r drill.Report) table.Table {
	return table.Table{
		Columns: []table.Column{{Name: "do"}, {Name: "machines"}, {Name: "gone"}, {Name: "went_on"}, {Name: "stood_still_seconds"},
			{Name: "usual_clock_seconds"}, {Name: "until_next_clock_seconds"}, {Name: "lost_clocks"}, {Name: "rollbacks"}, {Name: "moved_partitions"}},
		Rows: [][]table.Cell{{table.Of(r.Do), table.Of(len(r.Targets)), table.Of(r.Gone), table.Of(r.WentOn), table.Of(r.Still), table.Of(r.Usual),
			table.Of(r.Until), table.Of(r.Lost), table.Of(r.Rollback), table.Of(r.Moved)}},
	}
}

// harm returns a function that harms machines: with the control endpoint of a fake cloud, or with a real cloud's own API after a
// confirmation.
func (o DrillOptions) harm(dir string, in io.Reader, out io.Writer) (func(context.Context, []drill.Machine) error, error) {
	if o.Do == drill.Move {
		return func(ctx context.Context, _ []drill.Machine) error { return o.move(ctx, dir) }, nil
	}
	state, err := jobrun.ReadState(dir)
	if err != nil {
		return nil, err
	}
	job, err := config.Load(filepath.Join(dir, rundir.JobFile))
	if err != nil {
		return nil, err
	}
	endpoint := state.Cloud
	if at := job.Installation(); at != nil {
		endpoint = at.Endpoint
	}
	if endpoint != "" && controlled(endpoint) {
		return func(ctx context.Context, machines []drill.Machine) error { return o.order(ctx, endpoint, machines) }, nil
	}
	if job.Cloud == config.CloudLocal {
		return nil, fmt.Errorf("the cloud of %s does not answer: its %s says that it is at %q", rundir.Relative(dir), jobrun.StateFile, endpoint)
	}
	provider, err := providers.Of(job)
	if err != nil {
		return nil, err
	}
	facts := provider.Facts()
	if err := drill.Possible(o.Do, facts.Undoable); err != nil {
		return nil, cli.Usage(err)
	}
	means := "terminates"
	if o.Do == drill.Evict {
		means = facts.Preemption
	}
	return func(ctx context.Context, machines []drill.Machine) error {
		fmt.Fprintf(out, "This %s %d machines of %s:\n", means, len(machines), rundir.Relative(dir))
		for _, m := range machines {
			fmt.Fprintf(out, "  %s of %s\n", m.ID, m.Pool)
		}
		if err := cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), o.yes); err != nil {
			return err
		}
		left, err := openHoldings(ctx, filepath.Join(dir, rundir.JobFile), "", "")
		if err != nil {
			return err
		}
		defer left.cloud.Close()
		if err := drill.Through(ctx, cloudFaults{left.cloud}, o.Do, machines); err != nil {
			return providers.Advice(left.job, err)
		}
		return nil
	}, nil
}

// cloudFaults lets a drill use a provider's account.
type cloudFaults struct{ cloud provisioner.Cloud }

func (h cloudFaults) Terminate(ctx context.Context, machines []string) error {
	return h.cloud.Terminate(ctx, named(machines)...)
}

func (h cloudFaults) Preempt(ctx context.Context, machines []string) error {
	return h.cloud.Preempt(ctx, named(machines)...)
}

func named(machines []string) (ids []provisioner.InstanceID) {
	for _, m := range machines {
		ids = append(ids, provisioner.InstanceID(m))
	}
	return ids
}

// controlled reports whether a fake cloud answers at an endpoint.
func controlled(endpoint string) bool {
	client := http.Client{Timeout: enter.ControlTimeout}
	response, err := client.Get(endpoint + "/_control/healthz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16))
	return err == nil && response.StatusCode == http.StatusOK && string(text) == "ok\n"
}

// order has a fake cloud do something to machines.
func (o DrillOptions) order(ctx context.Context, endpoint string, machines []drill.Machine) error {
	var steps []string
	for _, m := range machines {
		steps = append(steps, o.Do+" "+m.ID)
	}
	body, err := json.Marshal(map[string][]string{"steps": steps})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, enter.ControlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/_control/do", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("telling the cloud: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("telling the cloud: %w", err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(io.LimitReader(response.Body, 4096)); response.StatusCode != http.StatusOK {
		return fmt.Errorf("the cloud refuses: %s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
