package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// openGCE makes the adapter for looking and cleaning up; run narrows it to one run's machines.
func openGCE(ctx context.Context, job *config.Job, run string) (localrun.GCEAccount, error) {
	account, err := localrun.OpenGCE(ctx, job.GCE, run)
	if err != nil {
		return nil, gceAdvice(err)
	}
	return account, nil
}

// gceAdvice says what to do about refusals that a user can mend.
func gceAdvice(err error) error {
	if errors.Is(err, provisioner.ErrDenied) {
		return fmt.Errorf("%w\nNothing was bought. tierml takes Google's Application Default Credentials; `gcloud auth list` shows whose "+
			"they are, terraform/gcp what they must be allowed", err)
	}
	return err
}

// tryGCE looks whether Compute Engine sells the machine types of the pools.
func tryGCE(ctx context.Context, job *config.Job, pools []market.Pool) (string, error) {
	account, err := openGCE(ctx, job, "")
	if err != nil {
		return "", err
	}
	defer account.Close()
	if err := localrun.TryGCE(ctx, account, pools); err != nil {
		return "", gceAdvice(err)
	}
	return fmt.Sprintf("Compute Engine has the machine types of all %d pools. It has no trial of a launch: whether permissions, image, network\nand quotas are right will show when the first machine is bought.", len(pools)), nil
}
