package run

import (
	"errors"
	"os"
	"slices"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/provisioner"
)

// VerifyInputs checks the hashes of files uploaded for a submitted job; any other job passes. A run that has its splits
// no longer reads the training data.
func VerifyInputs(job *config.Job, split bool) error {
	if !Submitted() {
		return nil
	}
	root := os.Getenv(jobmanager.InputsVariable)
	var paths []string
	for field, path := range job.Files() { // any order
		if !split || field != "train.data" {
			paths = append(paths, *path)
		}
	}
	if job.Workdir != "" {
		paths = append(paths, job.Workdir)
	}
	slices.Sort(paths)
	return jobmanager.VerifyInputs(root, paths)
}

// Submitted reports whether a job server runs this process.
func Submitted() bool {
	_, is := os.LookupEnv(jobmanager.InputsVariable)
	return is
}

// NotTheJobs marks an error of a job server's process as the fault of the host, or of a store or cloud that does not
// answer. A provider that refuses a job from the start refuses it permanently; one that refuses a run that it has
// served before may change its mind.
func NotTheJobs(err error, resumed bool) error {
	_, left := errors.AsType[*runner.Left](err)
	denied := resumed && errors.Is(err, provisioner.ErrDenied)
	if Submitted() && (left || denied || provisioner.Retryable(err) || hostfault.Of(err) != "") {
		return cli.Exit(jobmanager.HostExit, err)
	}
	return err
}
