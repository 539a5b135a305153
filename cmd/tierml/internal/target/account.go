package target

import (
	"context"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
)

// OpenAccount opens a job's account for inspection and clean-up: it cannot buy anything. Run limits it to one run's
// machines.
func OpenAccount(ctx context.Context, job *config.Job, run string) (providers.Account, error) {
	p, err := providers.Of(job)
	if err != nil {
		return nil, err
	}
	account, err := p.Open(ctx, job, providers.Session{Run: run})
	return account, providers.Advice(job, err)
}
