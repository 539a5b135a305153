package localrun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/link"
)

// admission knows the secrets that this controller put into machines' user data: whoever has none of them was
// not launched by it.
type admission struct {
	mu      sync.Mutex
	secrets map[string]bool
}

func (a *admission) issue() string {
	secret := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[secret] = true
	return secret
}

func (a *admission) accept(h tiers.Hello) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.secrets[h.Token] {
		return errors.New("this controller did not launch that machine")
	}
	return nil
}

// userData is what a machine is started with.
func (a *admission) userData(controller, job string, vcpu int) string {
	return node.UserData{
		Controller: controller, Token: a.issue(), Job: job, Listen: "127.0.0.1:0", VCPU: vcpu,
	}.Encode()
}

// nodes is the link as the runner sees it.
type nodes struct{ *link.Link }

func (n nodes) Receive(ctx context.Context, f func(ps.ServerID, tiers.Report, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r, ok := <-n.Reports():
			if !ok {
				return fmt.Errorf("listening to nodes: %w", link.ErrUnknownNode)
			}
			f(r.ID, r.Report, r.Disconnected)
		}
	}
}
