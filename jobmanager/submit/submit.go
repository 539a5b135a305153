// Package submit sends the local files that a job file names to a job server.
package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tierml/tierml/internal/rundir"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/program/filenames"
	"github.com/tierml/tierml/ps"
)

// Upload sends the local files that a job names, unless the job server has them, and puts their names there into the job.
func Upload(ctx context.Context, client *call.Client, job *config.Job, out io.Writer) error {
	if to := job.Checkpoint.To; to != "" && !location.IsURL(to) {
		return job.Fault("checkpoint.to", "is a directory of this host, and the job runs at the job server",
			"name a store, such as s3://BUCKET/PREFIX, or remove the line: then it is in the run's directory there")
	}
	if job.Alerts.URLFile != "" || job.Alerts.SecretFile != "" {
		return job.Fault("alerts", "names a file with a secret, which is not sent to the job server",
			"start the job server with its settings alert-url-file and alert-secret-file: then it tells of all jobs")
	}
	if job.Block != nil {
		job.Block.Shared().Controller = config.Controller{} // it is this host's connection to it
	}
	for name := range job.Secrets {
		job.Secrets[name] = config.Secret{} // its value is sent separately
	}
	if err := uploadWorkdir(ctx, client, job, out); err != nil {
		return err
	}
	files := job.Files()
	for _, field := range slices.Sorted(maps.Keys(files)) {
		paths := []string{*files[field]}
		if field == "train.data" {
			beside, err := besides(ctx, job)
			if err != nil {
				return err
			}
			paths = append(paths, beside...)
		}
		name, err := client.Upload(ctx, paths, func(name string, bytes int64) {
			fmt.Fprintf(out, "Uploading %s, %.1f MB\n", name, float64(bytes)/1e6)
		})
		if err != nil {
			return err
		}
		*files[field] = name
	}
	return nil
}

// uploadWorkdir sends the folder that programs run in, packed.
func uploadWorkdir(ctx context.Context, client *call.Client, job *config.Job, out io.Writer) error {
	if job.Workdir == "" {
		return nil
	}
	folder, err := os.MkdirTemp("", "tierml-")
	if err != nil {
		return fmt.Errorf("packing the workdir: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "workdir"+filenames.PackedEnding)
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("packing the workdir: %w", err)
	}
	_, err = jobrun.PackWorkdir(ctx, job, rundir.Root, file)
	if closing := file.Close(); err != nil || closing != nil {
		return job.Fault("workdir", errors.Join(err, closing).Error(), "")
	}
	job.Workdir, err = client.Upload(ctx, []string{path}, func(_ string, bytes int64) {
		fmt.Fprintf(out, "Uploading %s, %.1f MB packed\n", job.Workdir, float64(bytes)/1e6)
	})
	return err
}

// besides returns the files that the application reads in addition to the training data. Preparing the data finds them,
// which also checks the data before anything is sent.
func besides(ctx context.Context, job *config.Job) (paths []string, err error) {
	kind, err := all.Registry().Find(job.Train.App)
	if err != nil {
		return nil, job.Fault("train.app", err.Error(), "docs/applications.md lists the applications")
	}
	file, err := os.Open(job.Train.Data)
	if err != nil {
		return nil, fmt.Errorf("reading the training data: %w", err)
	}
	defer file.Close()
	size := int64(0)
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}
	bar := progress.Start(ctx, "Checking "+filepath.Base(job.Train.Data), size, progress.Bytes)
	defer bar.Done()
	beside := func(name string) (io.ReadCloser, error) {
		path := location.Beside(job.Train.Data, name)
		file, err := os.Open(path)
		if err == nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
		return file, err
	}
	data, err := kind.Prepare(apps.Input{Name: job.Train.Data, Data: bar.Reader(file), Beside: beside, MaxBadLines: job.Train.MaxBadLines,
		Columns: job.Train.Columns, Ignore: job.Train.Ignore, Target: apps.TargetOf(job.Train.Params)},
		prepare.CutOf(job, job.Seed), func(ps.Split) (io.WriteCloser, error) { return prepare.Discard{}, nil })
	if err != nil {
		return nil, prepare.DataFault(job, err)
	}
	job.Train.Splits = data.Splits
	return paths, nil
}
