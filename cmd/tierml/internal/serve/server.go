// Package serve has the long-running commands that serve others: server, hosts, dashboard, fakecloud, agent.
package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/change"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/run"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

type serverOptions struct {
	door       doorFlags
	home       string
	tokenFile  string
	accept     []string
	watch      []string
	hosts      string
	scheduler  string
	slots      int
	maxRunning int
	maxQueued  int
	maxUpload  int64
	keepFree   int64
	allow      []string
	jobMemory  int64
	keepInputs time.Duration
	alerts     config.Alerts
	total      string
	groups     map[string]string
	groupFile  string
	perHour    string
	over       string
	isolate    bool
	behind     bool // as the job server of one group (isolate.go)
}

func NewServerCommand() *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use:     "server",
		Aliases: []string{"controller"},
		Short:   "Accept jobs over HTTP, queue and run them, and resume them after a restart",
		Long: `Each job runs in its own process, below --directory, and survives the job server: the next one resumes it. The dashboard is at the
same address. See docs/server.md. The command was once called tierml controller, which still works.

Every request needs the token from the file that the first start creates. From elsewhere, use a tunnel
(ssh -N -L 7071:localhost:7071 HOST) or TLS.`,
		Example: `  tierml server
  tierml server --directory work --max-running 4
  tierml run --server http://localhost:7071 examples/demo.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.scheduler != "" && !cmd.Flags().Changed("max-running") {
				o.maxRunning = 32 // jobs without slots wait anyway
			}
			if o.isolate {
				return serveGroups(cmd.Context(), o, cmd, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return serveJobs(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.door.flags(cmd, "localhost:7071")
	f.StringVar(&o.home, "directory", ".", "the `directory` that holds runs and inputs")
	f.StringVar(&o.tokenFile, "token-file", "", "the `file` with the token (default: token in the directory)")
	// server.token-file is the token of clients.
	_ = f.SetAnnotation("token-file", settings.SharedSetting, []string{"server.own-token-file", "TIERML_SERVER_OWN_TOKEN_FILE"}) // it exists
	f.StringVar(&o.groupFile, "groups", "", "a `file` of groups with their tokens, quotas and budgets (docs/server.md#groups)")
	f.BoolVar(&o.isolate, "isolate", false, "with --groups: a separate user for each group's jobs, required for --allow programs (root on Linux)")
	f.BoolVar(&o.behind, "behind", false, "serve one group, behind --isolate")
	_ = f.MarkHidden("behind") // it exists
	f.StringVar(&o.hosts, "hosts", "", "run the shared hosts of this `file`")
	f.StringVar(&o.scheduler, "scheduler", "", "with --hosts or --slots: the `policy` that grants jobs their slots (docs/scheduler.md); default: first come, first served")
	cli.CompleteFlag(cmd, "scheduler", jobmanager.Schedulers...)
	f.IntVar(&o.slots, "slots", 0, "with --scheduler, without --hosts: `number` of transient machines for all jobs together, such as pods")
	f.IntVar(&o.maxRunning, "max-running", 2, "`number` of jobs that run at a time; with --scheduler by default 32")
	f.StringSliceVar(&o.allow, "allow", nil, "let submitted jobs read files below this `directory`, use this endpoint of a store or cloud, or\n"+
		"(programs) run commands on this host")
	f.StringVar(&o.total, "budget", "", "limit in `dollars` for all runs in the directory")
	more := cli.MoreSettings(cmd)
	more.StringSliceVar(&o.accept, "accept-sha256", nil, "also accept tokens with these SHA-256 `sums`")
	more.StringVar(&o.alerts.SecretFile, "alert-secret-file", "", "sign alerts with the key in this `file`")
	more.StringVar(&o.alerts.URLFile, "alert-url-file", "", "send alerts to the webhook whose address is in this `file`")
	more.StringVar(&o.perHour, "budget-per-hour", "", "limit in `dollars` per hour for all running jobs")
	more.StringToStringVar(&o.groups, "group-budget", nil, "limit for a group, `GROUP=DOLLARS`; repeatable")
	more.Int64Var(&o.jobMemory, "job-memory", 0, "memory limit of each process, in `MiB` (default: half of the host's; -1: unlimited)")
	more.Int64Var(&o.keepFree, "keep-free", 1024, "refuse uploads that would leave less free disk than this, in `MiB`")
	more.DurationVar(&o.keepInputs, "keep-inputs", 7*24*time.Hour, "remove uploaded files unused for this `time`; 0: never")
	more.IntVar(&o.maxQueued, "max-queued", 100, "`number` of jobs that may wait")
	more.Int64Var(&o.maxUpload, "max-upload", 4096, "largest input file, in `MiB`")
	more.StringVar(&o.over, "over-budget", config.LimitStop, "`action` above a limit: warn, pause (start no waiting jobs) or stop (above the budget, also running jobs)")
	more.StringSliceVar(&o.watch, "watch-sha256", nil, "accept tokens with these SHA-256 `sums` for calls that only read")
	cmd.AddCommand(newServerStartCommand(), newServerStopCommand(), newServerTunnelCommand())
	return cmd
}

// leastKept exceeds the time of any submission, from the upload to the job's record.
const leastKept = 24 * time.Hour

// limits returns the limits of all jobs together.
func (o serverOptions) limits() (c budget.Cluster, err error) {
	c.WarnAt, c.Over = 0.8, budget.Do(o.over)
	if c.Over != budget.Warn && c.Over != budget.Pause && c.Over != budget.Stop {
		return c, cli.Usage(fmt.Errorf("over-budget=%s does not exist; write warn, pause or stop", o.over))
	}
	for _, limit := range []struct {
		name, text string
		to         *market.USD
	}{{"budget", o.total, &c.Total}, {"budget-per-hour", o.perHour, &c.PerHour}} {
		if limit.text == "" {
			continue
		}
		usd, err := market.ParseUSD(strings.TrimPrefix(limit.text, "$"))
		if err != nil || usd <= 0 {
			return c, cli.Usage(fmt.Errorf("%s %s is not an amount of dollars; write 100 or 2.50", limit.name, limit.text))
		}
		*limit.to = usd
	}
	return c, nil
}

// budgets returns groups' budgets, from the file of groups and the flag.
func (o serverOptions) budgets(groups map[string]jobmanager.Group) (map[string]market.USD, error) {
	all := map[string]market.USD{}
	for name, g := range groups {
		if g.Budget > 0 {
			all[name] = g.Budget
		}
	}
	for group, text := range o.groups {
		usd, err := market.ParseUSD(strings.TrimPrefix(text, "$"))
		if err != nil || usd <= 0 || group == "" {
			return nil, cli.Usage(fmt.Errorf("group-budget=%s=%s is not an amount of dollars for a group; write vision=200", group, text))
		}
		if all[group] > 0 {
			return nil, cli.Usage(fmt.Errorf("group-budget=%s=%s: %s has a budget of that group; leave one of them out", group, text, o.groupFile))
		}
		all[group] = usd
	}
	return all, nil
}

// policy returns the scheduler's policy; nil = no scheduler.
func (o serverOptions) policy() (sched.Policy, error) {
	if o.scheduler == "" {
		return nil, nil
	}
	return sched.ByName(o.scheduler)
}

// memoryOfJobs returns the memory limit of each process of a job, in bytes; 0 = unlimited, also if the host's memory is unknown.
func (o serverOptions) memoryOfJobs() int64 {
	switch {
	case o.jobMemory > 0:
		return o.jobMemory << 20
	case o.jobMemory < 0:
		return 0
	}
	return confine.HostMemory() / 2
}

// allowed returns the places that submitted jobs may name, as absolute paths.
func (o serverOptions) allowed() (out []string, err error) {
	for _, place := range o.allow {
		if place == config.AllowPrograms {
			out = append(out, place)
			continue
		}
		if !strings.Contains(place, "://") {
			if place, err = filepath.Abs(place); err != nil {
				return nil, fmt.Errorf("--allow: %w", err)
			}
		}
		out = append(out, place)
	}
	return out, nil
}

// sumsOf parses a setting's sums of tokens.
func sumsOf(setting string, texts []string) (sums []access.Sum, err error) {
	for _, text := range texts {
		sum, err := access.ParseSum(text)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("%s=%s: %w", setting, text, err))
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

func serveJobs(ctx context.Context, o serverOptions, out, errOut io.Writer) error {
	if err := o.door.Check("the job server"); err != nil {
		return cli.Usage(err)
	}
	allow, err := o.allowed()
	if err != nil {
		return err
	}
	if o.maxRunning < 1 || o.maxQueued < 1 || o.maxUpload < 1 || o.keepFree < 0 {
		return cli.Usage(fmt.Errorf("max-running, max-queued and max-upload are 1 or more"))
	}
	if o.keepInputs != 0 && o.keepInputs < leastKept {
		return cli.Usage(fmt.Errorf("keep-inputs=%s is too short for a submission; write %s or more, or 0 to keep them forever", o.keepInputs, leastKept))
	}
	accepted, err := sumsOf("accept-sha256", o.accept)
	if err != nil {
		return err
	}
	readers, err := sumsOf("watch-sha256", o.watch)
	if err != nil {
		return err
	}
	limits, err := o.limits()
	if err != nil {
		return err
	}
	groups := map[string]jobmanager.Group{}
	if o.groupFile != "" {
		if groups, err = jobmanager.ReadGroups(o.groupFile); err != nil {
			return cli.Usage(err)
		}
	}
	if len(groups) > 0 && slices.Contains(allow, config.AllowPrograms) && !o.behind {
		return cli.Usage(fmt.Errorf("--allow programs runs submitted commands as the job server's user, who can read the files of all groups and its token: with --groups, " +
			"add --isolate, or leave it out and have programs run on machines of a cloud"))
	}
	quotas, fences := map[string]jobmanager.Quota{}, map[string]jobmanager.Fence{}
	for name, g := range groups {
		fences[name] = g.Fence
		if g.Quota != (jobmanager.Quota{}) {
			quotas[name] = g.Quota
		}
	}
	budgets, err := o.budgets(groups)
	if err != nil {
		return err
	}
	policy, err := o.policy()
	if err != nil {
		return cli.Usage(err)
	}
	if o.slots < 0 || o.slots > 0 && (policy == nil || o.hosts != "") {
		return cli.Usage(fmt.Errorf("--slots %d is the number of jobs' own machines under a --scheduler, and with --hosts jobs have none: write --slots 16 --scheduler drf", o.slots))
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which runs the jobs: %w", err)
	}
	log := slog.New(slog.NewTextHandler(errOut, nil))
	notifier, err := run.OpenNotifier(o.alerts, log)
	if err != nil {
		return cli.Usage(err)
	}
	defer notifier.Close()
	manager, err := jobmanager.Open(jobmanager.Config{
		Home: o.home, Command: []string{self}, Hosts: o.hosts, Slots: o.slots, Scheduler: policy, MaxRunning: o.maxRunning, MaxQueued: o.maxQueued, MaxUpload: o.maxUpload << 20, Log: log, Now: time.Now,
		EndExpiredMachines: func(ctx context.Context, file string) error { return change.EndExpired(ctx, file, log) },
		Notifier:           notifier, Limits: limits, Budgets: budgets, Quotas: quotas, Fences: fences, KeepInputs: o.keepInputs, KeepFree: o.keepFree << 20, Allow: allow, JobMemory: o.memoryOfJobs(),
	})
	if err != nil {
		return cli.Usage(err)
	}
	if o.behind {
		return serveBehind(ctx, manager, groups, log)
	}
	if o.tokenFile == "" {
		o.tokenFile = filepath.Join(o.home, "token")
	}
	token, err := ensureToken(o.tokenFile, out)
	if err != nil {
		return err
	}
	listener, err := o.door.Listen()
	if err != nil {
		return fmt.Errorf("serving the job server: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var keeping sync.WaitGroup
	keeping.Go(func() { manager.Run(ctx) })
	address := o.door.scheme() + "://" + listener.Addr().String()
	if path, err := filepath.Abs(o.tokenFile); err == nil {
		o.tokenFile = path
	}
	fmt.Fprintf(out, "The job server and its dashboard are at %s until Ctrl-C, which ends no job.\nSubmit   tierml run --server %[1]s --token-file %s JOB.yaml\n",
		address, o.tokenFile)
	gate := access.NewGate(token, o.door.TLS(), time.Now, log)
	gate.Grant(access.Administer, access.All, accepted...)
	gate.Grant(access.Watch, access.All, readers...)
	grant(gate, groups)
	err = serveUntil(ctx, access.Server(gate.Handler(manager.Handler()), log), listener)
	stop()
	keeping.Wait()
	return err
}

// grant gives the groups' tokens their rights.
func grant(gate *access.Gate, groups map[string]jobmanager.Group) {
	for name, g := range groups {
		for right, sums := range g.Tokens {
			gate.Grant(right, name, sums...)
		}
	}
}
