// Package machine is `tierml agent`: what the program does on a machine of a run, according to the machine's metadata and environment.
package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/exitcode"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/heap"
	"github.com/tierml/tierml/internal/marked"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// ExitFenced is the agent's own: its controller gave it up while it was alive. A supervisor may restart it; it joins empty then.
const ExitFenced = 4

// Environment of an agent, in addition to the AWS SDK's variables. A machine of a real cloud needs none of it.
const (
	EnvClock = "TIERML_CLOCK" // clock.Mapping; unset = market time is wall-clock time
	EnvFlops = "TIERML_FLOPS" // rate to which the worker is limited; unset = unlimited
	EnvKey   = "TIERML_KEY_FILE"

	EnvPowerOff      = "TIERML_POWER_OFF"       // command that takes a time, such as +30, and powers the machine off then
	EnvPowerOffAfter = "TIERML_POWER_OFF_AFTER" // minutes; unset = the machine has no such timer
)

// shedAgain are times when an agent has joined and is idle, or works: memory for joining is no longer needed.
const shedAgain = 20 * time.Second

func Run(ctx context.Context, env func(string) string, logTo io.Writer) error {
	mapping, flops, err := agentEnvironment(env)
	if err != nil {
		return exitcode.Wrong(err)
	}
	if err := marked.KeepRight(); err != nil {
		return err
	}
	if env("GOGC") == "" {
		heap.Tune()
	}
	heap.Shed()
	defer time.AfterFunc(shedAgain, heap.Shed).Stop()
	log := slog.New(&marketLog{slog.NewTextHandler(logTo, nil), mapping})
	machine, err := providers.Machine(env, mapping, log)
	if err != nil {
		return exitcode.Wrong(err)
	}
	if slot := env(hostagent.EnvSlot); slot != "" {
		machine = hostagent.Slot(slot)
		go func() { // it ends with this process, or ends it
			log.Error("the end of the host agent cannot be detected", "err", hostagent.EndWithHost(os.Stdin))
		}()
	} else if data, err := machine.UserData(ctx); err == nil { // otherwise the node asks again
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
		KeyFile:     env(EnvKey),
		UseKeys:     blob.UseKeys,
		Use:         watchUse,
		PutOff:      powerOffLater(env),
		Log:         log,
	})
	if errors.Is(err, node.ErrFenced) {
		return exitcode.With(ExitFenced, err)
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
		Env: slotEnvironment(env), Log: log, Flops: flops, KeyFile: env(EnvKey), Watch: machine.Watch, PutOff: powerOffLater(env),
		Users: slotUsers(env), EndsWarned: providers.TermWarns(env)})
}

// slotUsers returns the number of the first user of a slot: on a machine that belongs to root, slots share no files with others. A host
// that is a process of the controller's computer reads the jobs' own directories.
func slotUsers(env func(string) string) int {
	if os.Geteuid() != 0 || env(EnvPowerOffAfter) == "" {
		return 0
	}
	return 1_000_000_000 + os.Getpid()%100_000*10_000 // other agents of one computer, as of a fake cloud, have different ones
}

// slotEnvironment returns the part of the host's environment that slots get: paths, and no secrets but those that the provider lets all have.
func slotEnvironment(env func(string) string) []string {
	given := []string{EnvClock + "=" + env(EnvClock)}
	for _, name := range append([]string{"AWS_REGION", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST"}, providers.SlotsHave(env)...) {
		if value := env(name); value != "" {
			given = append(given, name+"="+value)
		}
	}
	return given
}

func agentEnvironment(env func(string) string) (mapping clock.Mapping, flops float64, err error) {
	mapping = clock.Real()
	if s := env(EnvClock); s != "" {
		if mapping, err = clock.Parse(s); err != nil {
			return mapping, 0, fmt.Errorf("%s: %w", EnvClock, err)
		}
	}
	if s := env(EnvFlops); s != "" {
		if flops, err = strconv.ParseFloat(s, 64); err != nil || !(flops > 0) {
			return mapping, 0, fmt.Errorf("%s: %q is not a number of operations per second above 0, such as 4e7", EnvFlops, s)
		}
	}
	return mapping, flops, nil
}

// powerOffLater sets the machine's timer anew. The machine's first script set it, before anything could hang.
func powerOffLater(env func(string) string) func(context.Context) error {
	command, minutes := strings.Fields(env(EnvPowerOff)), env(EnvPowerOffAfter)
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

// newApp creates an application from a Welcome.
func newApp(name string, params map[string]string, dataset []byte) (apps.App, error) {
	kind, err := all.Find(name)
	if err != nil {
		return nil, err
	}
	given := apps.Params{}
	for name, text := range params {
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			given[name] = number
		} else {
			given[name] = text // a word; the application refuses unknown ones
		}
	}
	var data apps.Dataset
	if err := json.Unmarshal(dataset, &data); err != nil {
		return nil, fmt.Errorf("reading what is known of the data: %w", err)
	}
	return kind.New(given, data)
}
