package main

import (
	"os"
	"slices"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager"
)

// verifyInputs hashes again what was uploaded for a submitted job; any other job passes. A run with splits reads its training data no more.
func verifyInputs(job *config.Job, split bool) error {
	root, submitted := os.LookupEnv(jobmanager.InputsVariable)
	if !submitted {
		return nil
	}
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
