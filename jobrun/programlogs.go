package jobrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/program"
)

// How often the output of programs is fetched from the run's store: machines send it every two seconds.
const (
	fetchOutput       = time.Second
	fetchRemoteOutput = 5 * time.Second
	lastFetch         = 2 * time.Second // when the run leaves in a hurry
)

// outputs copies programs' output from the run's store to its directory, where the machines' logs are.
type outputs struct {
	store, dir string
	over       map[program.LogName]bool // of older attempts, completely fetched
}

// follow fetches until ctx is done, and then once more, until last is done.
func (o *outputs) follow(ctx, last context.Context, every time.Duration, failed func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		over := false
		select {
		case <-ticker.C:
		case <-ctx.Done():
			over = true
		}
		if err := o.fetch(last); err != nil {
			failed(err)
		}
		if over {
			return
		}
	}
}

func (o *outputs) fetch(ctx context.Context) error {
	names, err := program.Logs(ctx, o.store)
	if err != nil {
		return fmt.Errorf("listing the output of programs: %w", err)
	}
	var failures []error
	for i, name := range names { // by key, then attempt
		if o.over[name] {
			continue
		}
		n, err := o.copy(ctx, name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		o.over[name] = n == 0 && i+1 < len(names) && names[i+1].Key == name.Key
	}
	return errors.Join(failures...)
}

// copy appends new output of an attempt, and returns its size.
func (o *outputs) copy(ctx context.Context, name program.LogName) (int64, error) {
	path := filepath.Join(o.dir, rundir.LogsDir, fmt.Sprintf("%s.%d.log", name.Key, name.Attempt))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	next, err := program.CopyLog(ctx, f, o.store, name, info.Size())
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("fetching the output of %s: %w", name.Key, err)
	}
	return next - info.Size(), nil
}
