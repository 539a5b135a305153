package figures

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Environment of an agent: what a metadata service would say.
const (
	envInstance = "FIGURES_INSTANCE"
	envUserData = "FIGURES_USER_DATA"
	envPulls    = "FIGURES_PULLS" // deliveries of cuts at once; 0 = as usual
	envFlops    = "FIGURES_FLOPS"
	envBegun    = "FIGURES_BEGUN" // load.begun
)

// Agent is the argument by which this program plays a machine.
const Agent = "agent"

// RunAgent plays a machine: the node of every run, which asks its environment who it is.
func RunAgent() error {
	flops, err := strconv.ParseFloat(os.Getenv(envFlops), 64)
	if err != nil {
		return fmt.Errorf("%s: %w", envFlops, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return node.Run(ctx, node.Config{
		Machine: host{}, NewServer: newServer, NewClient: node.NewDataClient,
		NewApp: func(_ string, _ map[string]string, dataset []byte) (apps.App, error) {
			work := load{Begun: os.Getenv(envBegun)}
			err := json.Unmarshal(dataset, &work)
			return work, err
		},
		OpenSplit: openPiece, Flops: flops, Plaintext: true,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// newServer is the server of every run, but for how many deliveries of cuts it takes in at once.
func newServer(c node.ServerConfig) (node.Server, error) {
	var err error
	if c.PullsAtOnce, err = strconv.Atoi(os.Getenv(envPulls)); err != nil {
		return nil, fmt.Errorf("%s: %w", envPulls, err)
	}
	return node.NewDataServer(c)
}

type host struct{}

func (host) Identity(context.Context) (node.Identity, error) {
	return node.Identity{Instance: ps.ServerID(os.Getenv(envInstance)), Type: "host"}, nil
}

func (host) UserData(context.Context) (string, error) { return os.Getenv(envUserData), nil }

func (host) Watch(ctx context.Context, _ func(tiers.Warned)) error {
	<-ctx.Done()
	return nil
}
