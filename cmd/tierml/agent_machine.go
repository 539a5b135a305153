package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/provisioner"
	ec2notice "github.com/tierml/tierml/provisioner/ec2/notice"
	gcenotice "github.com/tierml/tierml/provisioner/gce/notice"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// machineOf finds out whose machine this is.
func machineOf(env func(string) string, mapping clock.Mapping, log *slog.Logger) (node.Machine, error) {
	switch provider := env(envProvider); {
	case provider == config.ProviderGCE, provider == "" && env("GCE_METADATA_HOST") != "":
		return gceMachine{log, mapping}, nil
	case provider == config.ProviderEC2, provider == "":
		return ec2Machine{log}, nil
	default:
		return nil, fmt.Errorf("%s: %q is neither %s nor %s", envProvider, provider, config.ProviderEC2, config.ProviderGCE)
	}
}

func warnedOf(n provisioner.Notice) tiers.Warned {
	return tiers.Warned{Rebalance: n.Kind == provisioner.Rebalance, Deadline: n.Deadline}
}

func reportTo(log *slog.Logger) func(error) {
	return func(err error) { log.Warn("watching for notices", "error", err) }
}

// ec2Machine is what EC2's metadata service, or one that speaks like it, says of this machine.
type ec2Machine struct{ log *slog.Logger }

func (m ec2Machine) Identity(ctx context.Context) (node.Identity, error) {
	id, err := ec2notice.ReadIdentity(ctx, ec2notice.Config{})
	return node.Identity{Instance: ps.ServerID(id.ID), Type: id.Type}, err
}

func (m ec2Machine) UserData(ctx context.Context) (string, error) {
	data, err := ec2notice.ReadUserData(ctx, ec2notice.Config{})
	return string(data), err
}

func (m ec2Machine) Watch(ctx context.Context, f func(tiers.Warned)) error {
	return ec2notice.Watch(ctx, ec2notice.Config{Report: reportTo(m.log)}, func(n provisioner.Notice) { f(warnedOf(n)) })
}

// gceMachine is what Compute Engine's metadata server, or one that speaks like it, says of this machine. It names no
// deadline: that is reckoned here, in market time.
type gceMachine struct {
	log     *slog.Logger
	mapping clock.Mapping
}

func (m gceMachine) Identity(ctx context.Context) (node.Identity, error) {
	id, err := gcenotice.ReadIdentity(ctx)
	return node.Identity{Instance: ps.ServerID(id.ID), Type: id.Type}, err
}

func (m gceMachine) UserData(ctx context.Context) (string, error) {
	data, err := gcenotice.ReadUserData(ctx)
	return string(data), err
}

func (m gceMachine) Watch(ctx context.Context, f func(tiers.Warned)) error {
	return gcenotice.Watch(ctx, gcenotice.Config{Clock: m.mapping, Report: reportTo(m.log)}, func(n provisioner.Notice) { f(warnedOf(n)) })
}
