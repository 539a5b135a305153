package prepare

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/diloco"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
)

// DataOn is Data for jobs of machines. A program on parameter servers has no data of ours: its splits are replicas.
func DataOn(ctx context.Context, job *config.Job, choice planner.Resolved, create apps.Create) (apps.Program, apps.Dataset, error) {
	if !job.OnTiers() {
		return Data(ctx, job, create)
	}
	if _, err := jobrun.ReadSecrets(job); err != nil { // reported now, and not when machines run
		return nil, apps.Dataset{}, err
	}
	known, err := MeasureProgram(ctx, job, choice)
	if err != nil {
		return nil, apps.Dataset{}, err
	}
	if _, err := MeasureWorkdir(ctx, job); err != nil {
		return nil, apps.Dataset{}, err
	}
	data, err := diloco.Detail{Terms: job.Terms(), Work: known.work / float64(job.Train.Clocks)}.Dataset()
	if err != nil {
		return nil, apps.Dataset{}, err
	}
	for s := range data.Splits {
		file, err := create(ps.Split(s))
		if err != nil {
			return nil, apps.Dataset{}, fmt.Errorf("writing splits: %w", err)
		}
		_, err = fmt.Fprintln(file, s)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, apps.Dataset{}, fmt.Errorf("writing splits: %w", err)
		}
	}
	return MakeProgram(job, data)
}
