package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/tally"
	"github.com/tierml/tierml/internal/checkpoint"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/ps"
)

// Checkpoints go to a file system of their own, of which there is too little at times.
const (
	diskDir = "disk"
	filler  = "filler"
	disk    = "8m"
)

// makeDisk makes the place for checkpoints. Plain makes it a folder, which is never full. Release keeps what is on it, if
// it is wanted, and takes it away.
func (s *stage) makeDisk(plain bool) (release func(keep bool) error, err error) {
	dir := s.site.Path(diskDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a place for checkpoints: %w", err)
	}
	if plain {
		return func(bool) error { return nil }, nil
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+disk); err != nil {
		return nil, fmt.Errorf("making a file system for checkpoints (leave it out with -without disk-full): %w", err)
	}
	return func(keep bool) (err error) {
		if keep {
			err = os.CopyFS(s.site.Path("disk-kept"), os.DirFS(dir))
		}
		return errors.Join(err, syscall.Unmount(dir, syscall.MNT_DETACH))
	}, nil
}

// fillDisk leaves no room for checkpoints for a while.
func (s *stage) fillDisk(f fault) (string, error) {
	path := s.site.Path(diskDir, filler)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", nil // it is full already
	}
	for err == nil { // pages that a checkpoint has given free meanwhile are taken, too
		_, err = file.Write(make([]byte, 4096))
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("filling the disk: %w", err)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return "", fmt.Errorf("filling the disk: %w", err)
	}
	s.later(f.long, func() error {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // another fault's time may have ended before
			return fmt.Errorf("emptying the disk: %w", err)
		}
		return nil
	})
	return "the disk for checkpoints", nil
}

// noSpace are the words of the operating system.
var noSpace = syscall.ENOSPC.Error()

// checkpointsAreWhole compares every checkpoint that is kept with the work up to its clock. Where the disk was full, some
// must have failed for that reason.
func (s *stage) checkpointsAreWhole(entries []journal.Entry, full bool) (kept int, err error) {
	if full && !slices.ContainsFunc(entries, func(e journal.Entry) bool {
		return e.Kind == journal.SaveFailed && strings.Contains(e.Why, noSpace)
	}) {
		err = errors.New("the disk was full, and no checkpoint failed for it")
	}
	schema, place, failed := s.saved()
	if failed != nil {
		return 0, errors.Join(err, failed)
	}
	found, doubts, failed := checkpoint.List(context.Background(), place)
	if err = errors.Join(err, failed, errors.Join(doubts...)); len(found) == 0 {
		err = errors.Join(err, errors.New("no checkpoint is left"))
	}
	for _, f := range found {
		err = errors.Join(err, s.isWhole(schema, f))
	}
	return len(found), err
}

// saved gives the schema of the run and the place of its checkpoints.
func (s *stage) saved() (schema ps.Schema, place string, err error) {
	state, err := localrun.ReadState(s.run.Dir())
	if err != nil {
		return schema, "", err
	}
	job, err := config.Load(filepath.Join(s.run.Dir(), localrun.JobFile))
	if err != nil {
		return schema, "", err
	}
	program, err := tally.Kind{}.New(nil, apps.Dataset{Splits: splits})
	if err != nil {
		return schema, "", err
	}
	return localrun.SchemaOf(job, program), state.Checkpoints, nil
}

func (s *stage) isWhole(schema ps.Schema, f checkpoint.Found) error {
	all := make([]ps.Partition, schema.Partitions)
	for p := range all {
		all[p] = ps.Partition(p)
	}
	blocks, err := checkpoint.LoadParts(context.Background(), f.Manifest, &schema, f.Clock, all)
	if err != nil {
		return err
	}
	tables := map[string][]int32{}
	for _, t := range schema.Tables {
		tables[t.Name] = make([]int32, int(t.Rows)*t.Cols)
	}
	for _, block := range blocks {
		block.Each(&schema, func(k ps.Key, cells []float32) {
			t := schema.Tables[k.Table]
			copy(tables[t.Name][int(k.Row)*t.Cols:], ps.Ints(cells))
		})
	}
	if err := compare(f.Clock, func(name string) []int32 { return tables[name] }); err != nil {
		return fmt.Errorf("the checkpoint %s: %w", filepath.Base(f.Manifest), err)
	}
	return nil
}
