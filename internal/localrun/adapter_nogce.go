//go:build nogce

package localrun

import (
	"context"
	"errors"

	"github.com/tierml/tierml/internal/config"
)

var errNoGCE = errors.New("this program was built without Compute Engine's client (-tags nogce)")

func (r *session) connectFakeGCE(context.Context, string) (adapter, error) { return nil, errNoGCE }

func (r *session) connectGCE(context.Context) (adapter, error) { return nil, errNoGCE }

// OpenGCE makes the adapter for looking and cleaning up.
func OpenGCE(context.Context, config.GCE, string) (GCEAccount, error) { return nil, errNoGCE }

func openGCEControllers(context.Context, config.GCE) (Controllers, error) { return nil, errNoGCE }
