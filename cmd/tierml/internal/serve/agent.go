package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/heap"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// exitFenced is the agent's own: its controller gave it up while it lived. A supervisor may start it again; it joins
// empty then.
const exitFenced = 4

// Environment of an agent, beside what the AWS SDK reads. A machine of a real cloud needs none of it.
const (
	envClock = "TIERML_CLOCK" // clock.Mapping; unset = market time is wall-clock time
	envFlops = "TIERML_FLOPS" // rate to which the worker is held; unset = it is not
	envKey   = "TIERML_KEY_FILE"

	envPowerOff      = "TIERML_POWER_OFF"       // command that takes a time, such as +30, and powers the machine off then
	envPowerOffAfter = "TIERML_POWER_OFF_AFTER" // minutes; unset = the machine has no such timer
)

// shedAgain is when an agent has joined and idles, or works: what joining took is not needed any longer.
const shedAgain = 20 * time.Second

func NewAgentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "Take part in a job (started by the machines themselves)",
		Hidden: true,
		Long: `Agent runs on each machine of a job. The instance metadata service tells it its identity and, in the user data, the
address of its controller, which tells it everything else.

Environment:
  ` + envClock + `   how market time follows from wall-clock time; unset: they are the same
  ` + envFlops + `   floating-point operations per second to which the worker is held; unset: as fast as it goes
  ` + envKey + `   where the machine's private key is kept for its next agent; unset: it is not
  ` + providers.Variable + `   whose machine it is, by the word in job files; unset: gce where GCE_METADATA_HOST is set, else ec2
  ` + envPowerOff + `, ` + envPowerOffAfter + `   command and minutes of the timer that powers the machine off, and that is reset while there
      is a controller; unset: no timer
  AWS_EC2_METADATA_SERVICE_ENDPOINT   the metadata service; unset: EC2's own address
  GCE_METADATA_HOST   the metadata server, host:port; unset: Compute Engine's own address

Exit code ` + strconv.Itoa(exitFenced) + `: the controller gave this process up while it lived; started again it joins empty.`,
		Example: "  " + envClock + "=2014-04-01T00:00:00Z@2026-10-01T12:00:00Z*600 tierml agent",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			if providers.TermWarns(os.Getenv) {
				stop()
				ctx, stop = signal.NotifyContext(cmd.Context(), os.Interrupt)
			}
			defer stop()
			return runAgent(ctx, os.Getenv, cmd.ErrOrStderr())
		},
	}
}

func runAgent(ctx context.Context, env func(string) string, logTo io.Writer) error {
	mapping, flops, err := agentEnvironment(env)
	if err != nil {
		return cli.Usage(err)
	}
	if env("GOGC") == "" {
		heap.Tune()
	}
	heap.Shed()
	defer time.AfterFunc(shedAgain, heap.Shed).Stop()
	log := slog.New(&marketLog{slog.NewTextHandler(logTo, nil), mapping})
	machine, err := providers.Machine(env, mapping, log)
	if err != nil {
		return cli.Usage(err)
	}
	if slot := env(hostagent.EnvSlot); slot != "" {
		machine = hostagent.Slot(slot)
		go func() { // it ends with this process, or ends it
			log.Error("the end of the host agent cannot be detected", "err", hostagent.EndWithHost(os.Stdin))
		}()
	} else if data, err := machine.UserData(ctx); err == nil { // else the node asks again
		if host, shared := hostagent.Decode(data); shared {
			return runHostAgent(ctx, env, machine, host, flops, log)
		}
	}
	err = node.Run(ctx, node.Config{
		Machine:     machine,
		NewServer:   node.NewDataServer,
		NewClient:   node.NewDataClient,
		NewApp:      newApp,
		OpenSplit:   splitdir.Open,
		NewPrograms: node.NewPrograms,
		Wall:        mapping.WallAt,
		Flops:       flops,
		KeyFile:     env(envKey),
		UseKeys:     blob.UseKeys,
		PutOff:      powerOffLater(env),
		Log:         log,
	})
	if errors.Is(err, node.ErrFenced) {
		return cli.Exit(exitFenced, err)
	}
	return err
}

// runHostAgent runs the slots of a host that jobs share.
func runHostAgent(ctx context.Context, env func(string) string, machine node.Machine, host hostagent.UserData, flops float64, log *slog.Logger) error {
	who, err := machine.Identity(ctx)
	if err != nil {
		return fmt.Errorf("finding out which host this is: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which slots run: %w", err)
	}
	home, err := os.MkdirTemp(env("HOME"), "slots-")
	if err != nil {
		return fmt.Errorf("making a directory for slots: %w", err)
	}
	defer os.RemoveAll(home)
	return hostagent.Run(ctx, hostagent.Config{ID: string(who.Instance), Host: host, Command: []string{self, "agent"}, Home: home,
		Env: []string{envClock + "=" + env(envClock)}, Flops: flops, Log: log})
}

func agentEnvironment(env func(string) string) (mapping clock.Mapping, flops float64, err error) {
	mapping = clock.Real()
	if s := env(envClock); s != "" {
		if mapping, err = clock.Parse(s); err != nil {
			return mapping, 0, fmt.Errorf("%s: %w", envClock, err)
		}
	}
	if s := env(envFlops); s != "" {
		if flops, err = strconv.ParseFloat(s, 64); err != nil || !(flops > 0) {
			return mapping, 0, fmt.Errorf("%s: %q is not a number of operations per second above 0, such as 4e7", envFlops, s)
		}
	}
	return mapping, flops, nil
}

// powerOffLater sets the machine's timer anew. The first script of a machine has set it, before anything could hang.
func powerOffLater(env func(string) string) func(context.Context) error {
	command, minutes := strings.Fields(env(envPowerOff)), env(envPowerOffAfter)
	if len(command) == 0 || minutes == "" {
		return nil
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, command[0], append(command[1:], "+"+minutes)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("resetting the timer that powers this machine off: %w: %s", err, out)
		}
		return nil
	}
}

// newApp makes an application from what a Welcome says.
func newApp(name string, params map[string]string, dataset []byte) (apps.App, error) {
	kind, err := all.Registry().Find(name)
	if err != nil {
		return nil, err
	}
	given := apps.Params{}
	for name, text := range params {
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			given[name] = number
		} else {
			given[name] = text // a word; the application refuses those that it does not know
		}
	}
	var data apps.Dataset
	if err := json.Unmarshal(dataset, &data); err != nil {
		return nil, fmt.Errorf("reading what is known of the data: %w", err)
	}
	return kind.New(given, data)
}

// marketLog adds the market time to each line.
type marketLog struct {
	slog.Handler
	mapping clock.Mapping
}

func (h *marketLog) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(slog.Time("market", h.mapping.At(r.Time).UTC()))
	return h.Handler.Handle(ctx, r)
}

func (h *marketLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &marketLog{h.Handler.WithAttrs(attrs), h.mapping}
}

func (h *marketLog) WithGroup(name string) slog.Handler {
	return &marketLog{h.Handler.WithGroup(name), h.mapping}
}
