package providers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// This file is for providers that lack something: no trial, no prices of their own, no controllers, no metadata service.

// Base is embedded by a Provider; its methods are for one that has nothing to add there.
type Base struct{}

// Try finds nothing: everything on the market can be bought.
func (Base) Try(context.Context, *config.Job, []market.Pool) (string, error) { return "", nil }

// Checks is empty: only the requirements of every job apply.
func (Base) Checks(*config.Job) []doctor.Check { return nil }

// Pace suits an API that answers at once and limits calls.
func (Base) Pace(*config.Job) Pace {
	return Pace{Prices: time.Minute, Calls: 2 * time.Minute, Lease: 15 * time.Minute}
}

// Place is empty: there is one network.
func (Base) Place(*config.Job) (network, zones []string) { return nil, nil }

// Plain is the account of a provider that reports no prices, runs no controllers and has no connections.
type Plain struct {
	provisioner.Cloud
	Planned
	Controllerless
}

// Close does nothing.
func (Plain) Close() {}

// Planned answers with the prices of a plan, for a provider that reports none.
type Planned map[market.Pool]*market.History

// PlannedPrices returns the prices of a plan's offers.
func PlannedPrices(offers []planner.Offer) Planned {
	p := Planned{}
	for _, o := range offers {
		p[o.Pool] = o.History
	}
	return p
}

// SpotPrices skips pools that the plan does not know.
func (p Planned) SpotPrices(_ context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	prices := map[market.Pool][]market.PricePoint{}
	for _, pool := range pools {
		h := p[pool]
		if h == nil {
			continue
		}
		if inForce, ok := h.Until(since).Last(); ok {
			prices[pool] = append(prices[pool], inForce)
		}
		prices[pool] = append(prices[pool], h.Points(since, until)...)
	}
	return prices, nil
}

// Controllerless is why a provider starts no controllers, as a message.
type Controllerless string

// Controllers is empty.
func (Controllerless) Controllers(context.Context) ([]provisioner.Controller, error) { return nil, nil }

// StartController refuses.
func (why Controllerless) StartController(context.Context, provisioner.ControllerRequest) (provisioner.Controller, error) {
	return provisioner.Controller{}, fmt.Errorf("%w: %s", provisioner.ErrInvalid, string(why))
}

// EndController does nothing: there is none.
func (Controllerless) EndController(context.Context, provisioner.Controller) error { return nil }

// Given is a machine without a metadata service: it received what it has to know at its start.
type Given struct {
	ID, Type     string
	UserDataFile string
	Warnings     func(context.Context, func(tiers.Warned)) error // like Watch of node.Machine; nil = no warnings
}

// Identity returns the given identity; a machine must have a name.
func (g Given) Identity(context.Context) (node.Identity, error) {
	if g.ID == "" {
		return node.Identity{}, errors.New("this is no machine of a run: nothing has named it")
	}
	return node.Identity{Instance: ps.ServerID(g.ID), Type: g.Type}, nil
}

// UserData reads the file.
func (g Given) UserData(context.Context) (string, error) {
	text, err := os.ReadFile(g.UserDataFile)
	return string(text), err
}

// Watch passes on warnings, if there are any.
func (g Given) Watch(ctx context.Context, f func(tiers.Warned)) error {
	if g.Warnings != nil {
		return g.Warnings(ctx, f)
	}
	<-ctx.Done()
	return nil
}
