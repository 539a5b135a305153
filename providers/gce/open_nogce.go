//go:build nogce

package gce

import (
	"context"
	"errors"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
)

var errNoClient = errors.New("this program was built without Compute Engine's client (-tags nogce)")

func open(context.Context, *config.Job, providers.Session) (engine, error) { return nil, errNoClient }

func openPlayed(context.Context, *config.Job, providers.Session) (providers.Account, error) {
	return nil, errNoClient
}
