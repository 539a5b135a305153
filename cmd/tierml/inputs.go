package main

import (
	"os"
	"slices"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/jobmanager"
)

// verifyInputs hashes again what was uploaded for a submitted job; any other job passes. A run with splits reads its training data no more.
func verifyInputs(job *config.Job, split bool) error {
	if !submitted() {
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

// submitted reports whether a job server runs this process.
func submitted() bool {
	_, is := os.LookupEnv(jobmanager.InputsVariable)
	return is
}

// notTheJobs has a process of a job server say that its error is the host's, or that of a store or cloud which does not answer.
func notTheJobs(err error) error {
	if submitted() && hostfault.Of(err) != "" {
		return exitError{jobmanager.HostExit, err}
	}
	return err
}
