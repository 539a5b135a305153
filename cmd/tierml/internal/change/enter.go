package change

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cmd/tierml/internal/watch"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/providers"
)

const howItEnters = `It starts in the program's folder, with the program's variables but without its secrets. It uses Session Manager on EC2 and SSH through
Identity-Aware Proxy on Compute Engine, by the provider's command line; if that is not installed, the command is printed.

` + whichMachine

const whichMachine = `The default machine is that of rank 0, or of the only task that runs. --machine also takes the beginning of a name.`

func NewExecCommand() *cobra.Command {
	var o machineSelector
	cmd := &cobra.Command{
		Use:   "exec RUN -- CMD...",
		Short: "Run a command on the machine of a program, where the program runs",
		Long: `It exits with the command's code. To use the shell's syntax, write -- bash -c 'ls | wc -l'.

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
		Short: "Open a shell on the machine of a program, where the program runs",
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
	rank, task int // below 0: not said
	machine    string
}

func (o *machineSelector) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&o.rank, "rank", -1, "the machine of this `rank` of a gang")
	cmd.Flags().IntVar(&o.task, "task", -1, "the machine that runs this `task` of an array")
	cmd.Flags().StringVar(&o.machine, "machine", "", "the machine of this `name`, whatever it runs")
	cmd.MarkFlagsMutuallyExclusive("rank", "task", "machine")
	o.at.Flags(cmd)
}

// selectedMachine is what they select.
type selectedMachine struct {
	run     string
	job     []byte // its job file
	machine listedMachine
	place   reach.Place
	home    string // the machine's folder on this host; empty = it is a provider's
}

// enter runs a command on a machine; none: a shell.
func (o *machineSelector) enter(cmd *cobra.Command, run, command []string) error {
	m, err := o.find(cmd, run)
	switch {
	case err != nil:
		return err
	case m.place.Cloud != config.CloudLocal:
		return enterElsewhere(m.place, command, cmd.OutOrStdout())
	}
	return enterHere(m, command)
}

// find finds the machine, which is one of a provider's or a process of this host.
func (o *machineSelector) find(cmd *cobra.Command, args []string) (m selectedMachine, err error) {
	err = o.at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
		m, err = o.findIn(ctx, runs, target.First(args))
		return err
	})
	return m, err
}

func (o *machineSelector) findIn(ctx context.Context, runs target.Runs, run string) (m selectedMachine, err error) {
	var job call.Job
	if m.run, job, err = runs.Get(ctx, run); err != nil {
		return m, err
	}
	if target.Ended(job) {
		return m, cli.Usage(fmt.Errorf("%s has ended: its machines are gone. `tierml state %[1]s --to DIR` copies what its programs have saved, `tierml logs %[1]s` has what they printed", m.run))
	}
	var text bytes.Buffer
	if err := runs.File(ctx, m.run, rundir.JobFile, &text); err != nil {
		return m, err
	}
	m.job = text.Bytes()
	var entries []journal.Entry
	if err := runs.Events(ctx, m.run, false, func(e journal.Entry) { entries = append(entries, e) }, func() {}); err != nil {
		return m, err
	}
	if m.machine, err = o.choose(m.run, entries); err != nil {
		return m, cli.Usage(err)
	}
	if m.place, err = placeOfMachine(m.job, m.machine); err != nil || m.place.Cloud != config.CloudLocal {
		return m, err
	}
	m.home, err = homeOf(ctx, job.Cloud, m.machine.id)
	if runs.Address() != "" && errors.Is(err, errNotHere) {
		err = cli.Usage(fmt.Errorf("the machines of %s are processes of the job server's host and user: run tierml there", m.run))
	}
	return m, err
}

// listedMachine is a machine as a journal has it.
type listedMachine struct {
	id   string
	pool market.Pool
	gone string // how it ended; empty = it is there
	runs string // a program
}

// choose finds the machine that is meant.
func (o *machineSelector) choose(run string, entries []journal.Entry) (listedMachine, error) {
	rows, err := watch.ProgramsOf(run, entries, nil)
	if err != nil {
		return listedMachine{}, err
	}
	machines := machinesOf(entries, rows)
	if o.machine != "" {
		return chooseMachine(run, o.machine, machines)
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
			return listedMachine{}, fmt.Errorf("%s of %s is %s: no machine runs it now; `tierml state %[2]s` lists those that run", wanted, run, r.Status)
		case r.Machine != "" && (wanted == "" || r.Program == wanted):
			running = append(running, r.Program)
		}
	}
	switch {
	case len(running) == 0 && wanted != "" && !slices.ContainsFunc(rows, func(r *watch.ProgramRow) bool { return r.Program == wanted }):
		return listedMachine{}, fmt.Errorf("%s has no %s that has run; `tierml state %[1]s` lists its programs", run, wanted)
	case len(running) == 0:
		return listedMachine{}, fmt.Errorf("no program of %s runs now: machines are bought or prepared; --machine enters one of %s", run, listMachines(machines))
	case len(running) > 1 && strings.HasPrefix(running[0], "task-"):
		return listedMachine{}, fmt.Errorf("%s runs %d tasks now; name one, such as --task %s, of %s", run, len(running), strings.TrimPrefix(running[0], "task-"), strings.Join(running, ", "))
	}
	for _, m := range machines {
		if m.runs == running[0] && m.gone == "" {
			return m, nil
		}
	}
	return listedMachine{}, fmt.Errorf("the machine of %s has just gone; another one is on its way", running[0])
}

func chooseMachine(run, name string, machines []listedMachine) (listedMachine, error) {
	var fit []listedMachine
	for _, m := range machines {
		if strings.HasPrefix(m.id, name) {
			fit = append(fit, m)
		}
	}
	switch {
	case len(fit) == 0:
		return listedMachine{}, fmt.Errorf("%s has no machine %s; it has %s", run, name, listMachines(machines))
	case len(fit) > 1:
		return listedMachine{}, fmt.Errorf("%s matches several machines of %s: %s", name, run, listMachines(fit))
	case fit[0].gone != "":
		return listedMachine{}, fmt.Errorf("machine %s of %s is gone (%s); it has %s", fit[0].id, run, fit[0].gone, listMachines(machines))
	}
	return fit[0], nil
}

// machinesOf are all machines of a journal, in the order of their launches.
func machinesOf(entries []journal.Entry, rows []*watch.ProgramRow) (machines []listedMachine) {
	for _, e := range entries {
		switch e.Kind {
		case journal.Launch:
			pool, err := market.ParsePool(e.Pool)
			if err == nil {
				machines = append(machines, listedMachine{id: e.Instance, pool: pool})
			}
		case journal.Evicted, journal.Failed, journal.Terminated:
			for i := range machines {
				if machines[i].id == e.Instance {
					machines[i].gone = string(e.Kind)
				}
			}
		}
	}
	for _, r := range rows {
		for i := range machines {
			if machines[i].id == r.Machine {
				machines[i].runs = r.Program
			}
		}
	}
	return machines
}

// listMachines names those that are there.
func listMachines(machines []listedMachine) string {
	var names []string
	for _, m := range machines {
		if m.gone == "" {
			names = append(names, strings.TrimSuffix(m.id+" ("+m.runs+")", " ()"))
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none now")
}

// placeOfMachine is where a machine is, by its job and its pool. Nothing else of the job is looked at: its files may be another host's.
func placeOfMachine(text []byte, m listedMachine) (reach.Place, error) {
	var job struct {
		Cloud  string               `yaml:"cloud"`
		Blocks map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		return reach.Place{}, fmt.Errorf("reading the run's job: %w", err)
	}
	var block struct {
		Project string `yaml:"project"`
	}
	if node, ok := job.Blocks[job.Cloud]; ok {
		_ = node.Decode(&block) // a block without a project is none
	}
	return reach.Place{Cloud: job.Cloud, Region: m.pool.Region, Project: block.Project, Instance: m.id, Zone: m.pool.Zone}, nil
}

// enterElsewhere goes into a machine of a provider's by its command line.
func enterElsewhere(p reach.Place, command []string, out io.Writer) error {
	line := "sudo bash -c 'exec bash " + providers.Home + "/.tierml/*/" + program.EnterScript + ` "$@"' ` + program.EnterScript
	for _, word := range command {
		line += " " + cli.Quoted(word)
	}
	words, codeless := p.MachineCommand(line, len(command) == 0 || cli.IsTerminal(os.Stdin) && cli.IsTerminal(os.Stdout))
	if len(words) == 0 {
		return fmt.Errorf("exec and ssh do not support cloud %s", p.Cloud)
	}
	if err := missing(p, words, out); err != nil {
		return err
	}
	if len(command) == 0 || !codeless {
		return runFor(words, os.Stdout)
	}
	mark := "tierml-" + rand.Text()
	words, _ = p.MachineCommand(fmt.Sprintf("printf %s; %s; printf '%s%%d.' $?", mark, line, mark), false)
	return marked(words, mark, os.Stdout)
}

// missing shows a provider's command where programs that it needs are not here, and says where to get them.
func missing(p reach.Place, words []string, out io.Writer) error {
	missing := p.Missing(words)
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(out, "Machine %s is entered by\n  %s\n", p.Instance, cli.ShellLine(words))
	return errors.New(strings.Join(missing, "\ntierml: "))
}

// marked runs a command that prints a mark, then what counts, then the mark again with an exit code and a dot.
func marked(words []string, mark string, out io.Writer) error {
	between := &betweenMarks{mark: []byte(mark), out: out}
	err := runFor(words, between)
	if code, ok := between.code(); ok {
		if code == 0 {
			return nil
		}
		return cli.PassedCode(code)
	}
	if err == nil {
		err = errors.New("the session ended before the command did")
	}
	return err
}

// betweenMarks passes on what comes between two marks, and keeps what comes after the second.
type betweenMarks struct {
	mark []byte
	out  io.Writer
	seen int
	held []byte
}

func (b *betweenMarks) Write(p []byte) (int, error) {
	b.held = append(b.held, p...)
	for b.seen < 2 {
		i := bytes.Index(b.held, b.mark)
		show := i
		if i < 0 { // the end may be the beginning of a mark
			show = max(0, len(b.held)-len(b.mark)+1)
		}
		if b.seen == 1 {
			if _, err := b.out.Write(b.held[:show]); err != nil {
				return 0, err
			}
		}
		b.held = b.held[show:]
		if i < 0 {
			break
		}
		b.seen, b.held = b.seen+1, b.held[len(b.mark):]
	}
	return len(p), nil
}

func (b *betweenMarks) code() (int, bool) {
	digits, _, dot := strings.Cut(string(b.held), ".")
	code, err := strconv.Atoi(digits)
	return code, b.seen == 2 && dot && err == nil
}

// enterHere goes into a machine of a fake cloud: a folder of this host.
func enterHere(m selectedMachine, command []string) error {
	scripts, err := filepath.Glob(filepath.Join(m.home, ".tierml", "*", program.EnterScript))
	if err != nil || len(scripts) == 0 {
		return fmt.Errorf("machine %s has no program yet", m.machine.id)
	}
	return runFor(append([]string{"bash", scripts[0]}, command...), os.Stdout)
}

// errNotHere is for a machine that no fake cloud of this host and user has.
var errNotHere = errors.New("the cloud does not have it on this host")

// homeOf asks a fake cloud of this host for the folder of a machine. A job server elsewhere names an address of its own host: whatever this user has
// there does not know the machine.
func homeOf(ctx context.Context, cloud, id string) (string, error) {
	if !onLoopback(cloud) {
		return "", fmt.Errorf("machine %s: %w", id, errNotHere)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cloud+"/_control/instances", nil)
	if err != nil {
		return "", fmt.Errorf("asking the cloud for its machines: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: sameuser.Dial, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking the cloud for its machines: %w: %w", errNotHere, err)
	}
	defer response.Body.Close()
	var there []fakecloud.InstanceView
	if err := json.NewDecoder(response.Body).Decode(&there); err != nil {
		return "", fmt.Errorf("asking the cloud for its machines: %w: %w", errNotHere, err)
	}
	i := slices.IndexFunc(there, func(i fakecloud.InstanceView) bool { return i.ID == id })
	switch {
	case i < 0:
		return "", fmt.Errorf("machine %s: %w", id, errNotHere)
	case there[i].Home == "":
		return "", fmt.Errorf("machine %s has just gone; another one is on its way", id)
	}
	return there[i].Home, nil
}

func onLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && at.IsLoopback()
}

// runFor runs a command with this process's terminal; what is typed there, a Ctrl-C too, is for the command. Its exit code is passed on.
func runFor(words []string, out io.Writer) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT)
	defer signal.Stop(signals)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return cli.PassedCode(128 + int(status.Signal()))
		}
		return cli.PassedCode(ended.ExitCode())
	}
	return err
}
