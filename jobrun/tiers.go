package jobrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/diloco"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/program/pack"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/child"
)

// placeOutside puts the files of a program on tiers where all machines can read them, and describes the program to them.
func (r *session) placeOutside(ctx context.Context) error {
	text, err := r.placeWorkdir(ctx)
	if err != nil {
		return err
	}
	outside := node.Outside{Retries: r.cfg.Job.Retries}
	if err := json.Unmarshal(text, &outside.Spec); err != nil {
		return fmt.Errorf("describing the program: %w", err)
	}
	detail, err := diloco.Of(r.cfg.Dataset)
	if err != nil {
		return err
	}
	if detail.Program, err = json.Marshal(outside); err != nil {
		return fmt.Errorf("describing the program: %w", err)
	}
	r.cfg.Dataset, err = detail.Dataset()
	return err
}

// SameOnTiers refuses to resume a run whose program on tiers has changed: its model would differ, or be trained differently. Nil data: the
// run had not begun.
func SameOnTiers(ctx context.Context, job *config.Job, data *apps.Dataset, runs string) error {
	if data == nil || !job.OnTiers() {
		return nil
	}
	before, err := diloco.Of(*data)
	if err != nil {
		return err
	}
	var program node.Outside
	if len(before.Program) == 0 {
		return nil
	}
	if err := json.Unmarshal(before.Program, &program); err != nil {
		return fmt.Errorf("reading what the run has trained: %w", err)
	}
	var changed []string
	differs := func(field string, was, is any) {
		if was != is {
			changed = append(changed, fmt.Sprintf("%s was %v and is %v", field, was, is))
		}
	}
	was, is := before.Terms, job.Terms()
	differs("tiers.parameters", was.Floats, is.Floats)
	differs("tiers.every", was.Every, is.Every)
	differs("tiers.rate", was.Rate, is.Rate)
	differs("tiers.momentum", was.Momentum, is.Momentum)
	differs("tiers.transport", was.Transport, is.Transport)
	differs("tiers.deterministic", was.Deterministic, is.Deterministic)
	differs("progress.of", was.Steps, is.Steps)
	differs("resources.count", was.Replicas, is.Replicas)
	differs("seed", was.Seed, is.Seed)
	differs("run", strconv.Quote(program.Spec.Run), strconv.Quote(job.Run))
	if job.Workdir != "" && program.Spec.Workdir != "" {
		files, err := changedFiles(ctx, job, program.Spec.Workdir, runs)
		if err != nil {
			return err
		}
		changed = append(changed, files...)
	}
	if len(changed) > 0 {
		return fmt.Errorf("the run cannot be resumed with another program: %s; put back what it was, or begin a new run", strings.Join(changed, "; "))
	}
	return nil
}

// changedFiles compares the workdir with the run's packed one. New files do not count: the program did without them, and working with a
// folder creates some.
func changedFiles(ctx context.Context, job *config.Job, packed, runs string) (changed []string, err error) {
	from, err := blob.Open(ctx, packed)
	if err != nil {
		return nil, fmt.Errorf("reading the workdir that the run has trained with: %w", err)
	}
	defer from.Close()
	before, err := pack.Contents(from)
	if err != nil {
		return nil, err
	}
	reads, writes := io.Pipe()
	defer reads.Close()
	go func() {
		_, err := PackWorkdir(ctx, job, runs, writes)
		_ = writes.CloseWithError(err)
	}()
	now, err := pack.Contents(reads)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if sum, is := now[name]; !is {
			changed = append(changed, name+" is gone from the workdir")
		} else if sum != before[name] {
			changed = append(changed, name+" in the workdir is another")
		}
	}
	return changed, nil
}

// overInitial adds a model's change to the program's initial model.
func (r *session) overInitial(ctx context.Context, moved model.Model) (model.Model, error) {
	names, file, err := child.Initial(ctx, node.ModelFolder(r.state.Store()))
	if errors.Is(err, fs.ErrNotExist) {
		return moved, errors.New("no machine has kept the model as it began")
	}
	if err != nil {
		return moved, err
	}
	defer file.Close()
	began, err := model.Read(file)
	if err != nil {
		return moved, fmt.Errorf("the model as it began: %w", err)
	}
	return diloco.Over(began, names, moved.Tensors[0].Float)
}
