package target

import (
	"context"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
)

// OpenAccount returns the way to a job's account for looking and cleaning up: nothing is bought by it. Run narrows it to one run's
// machines.
func OpenAccount(ctx context.Context, job *config.Job, run string) (providers.Account, error) {
	p, err := providers.Of(job)
	if err != nil {
		return nil, err
	}
	account, err := p.Open(ctx, job, providers.Session{Run: run})
	return account, providers.Advice(job, err)
}
