package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// Environment of an agent: what a metadata service would provide.
const (
	envInstance = "FIGURES_INSTANCE"
	envUserData = "FIGURES_USER_DATA"
	envPulls    = "FIGURES_PULLS" // concurrent deliveries of cuts; 0 = the default
	envFlops    = "FIGURES_FLOPS"
	envBegun    = "FIGURES_BEGUN" // load.begun
)

// agent is the argument with which this program acts as a machine.
const agent = "agent"

// runAgent acts as a machine: the node of every run, which reads its identity from its environment.
func runAgent() error {
	flops, err := strconv.ParseFloat(os.Getenv(envFlops), 64)
	if err != nil {
		return fmt.Errorf("%s: %w", envFlops, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return node.Run(ctx, node.Config{
		Machine: host{}, NewServer: newServer, NewClient: node.NewDataClient,
		NewApp: newApp, OpenSplit: openSplit, Flops: flops, Plaintext: true,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// newApp returns the figures' load, or a regular application.
func newApp(name string, params map[string]string, dataset []byte) (apps.App, error) {
	work := load{Begun: os.Getenv(envBegun)}
	if name == work.Name() {
		err := json.Unmarshal(dataset, &work)
		return work, err
	}
	var data apps.Dataset
	if err := json.Unmarshal(dataset, &data); err != nil {
		return nil, fmt.Errorf("reading what is known of the data: %w", err)
	}
	given := apps.Params{}
	for name, text := range params {
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			given[name] = number
		} else {
			given[name] = text
		}
	}
	kind, err := all.Registry().Find(name)
	if err != nil {
		return nil, err
	}
	return kind.New(given, data)
}

func openSplit(url string, id ps.Split) (io.ReadCloser, error) {
	if url == noFiles {
		return openPiece(url, id)
	}
	return splitdir.Open(url, id)
}

// newServer returns the regular server, except for the number of concurrent deliveries of cuts.
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
