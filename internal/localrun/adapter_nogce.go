//go:build nogce

package localrun

import (
	"context"
	"errors"
)

func (r *session) connectGCE(context.Context, string) (adapter, error) {
	return nil, errors.New("this program was built without Compute Engine's client (-tags nogce)")
}
