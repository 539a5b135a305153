package jobrun

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/tiers/checkpoint"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// tables are all parameters at one clock, for Evaluate and Export.
type tables struct {
	schema ps.Schema
	clock  ps.Clock
	values [][]float32 // Index: table; row after row, in stored form
}

// Row returns a row; it must not be changed.
func (t *tables) Row(k ps.Key) []float32 {
	table := &t.schema.Tables[k.Table]
	width := table.Width()
	stored := t.values[k.Table][int(k.Row)*width : (int(k.Row)+1)*width]
	if table.Rule.Name == ps.Add {
		return stored
	}
	row := make([]float32, table.Cols)
	table.Seen(row, stored, t.clock)
	return row
}

// readTables reads every row from its owner.
func readTables(ctx context.Context, schema ps.Schema, job string, a elasticity.Export, secure *tls.Config) (*tables, error) {
	c := client.New(client.Config{Schema: schema, Job: node.JobNumber(job), TLS: secure})
	defer c.Close()
	c.SetRoute(a.Generation, a.Route, a.Peers)
	t := &tables{schema: schema, clock: a.Clock}
	for id, table := range schema.Tables {
		values := make([]float32, 0, int(table.Rows)*table.Width())
		err := c.ReadTable(ctx, a.Generation, a.Clock, ps.TableID(id), func(_ ps.RowID, row []float32) error {
			values = append(values, row...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		t.values = append(t.values, values)
	}
	return t, nil
}

// export saves the result of a finished run, or a checkpoint of one that stops early, and returns the file's name in the run's directory.
func (r *session) export(ctx context.Context, a elasticity.Export) (e elasticity.Exported) {
	all, err := readTables(ctx, r.schema, r.dataPlane(), a, r.door.dataTLS())
	if err != nil {
		e.Err = fmt.Errorf("reading the parameters: %w", err)
		return e
	}
	open := func(s ps.Split) (io.ReadCloser, error) { return splitdir.Open(r.splits(), s) }
	stats, err := r.cfg.Program.Evaluate(all, open)
	if err != nil {
		e.Err = fmt.Errorf("evaluating the model: %w", err)
		return e
	}
	e.TestLoss = r.cfg.Program.Score(stats.TestLoss, stats.TestCount)
	if !a.Final {
		e.Model = rundir.CheckpointFile
		e.Err = checkpoint.Save(filepath.Join(r.cfg.Directory, rundir.CheckpointFile), r.schema, a.Clock, all.values)
		return e
	}
	e.Model = rundir.ModelFile
	e.Details, e.Err = r.saveModel(ctx, filepath.Join(r.cfg.Directory, rundir.ModelFile), all, open, a.Clock)
	return e
}

// saveModel saves the finished model, and returns the journal's record of a classifier's quality.
func (r *session) saveModel(ctx context.Context, path string, all *tables, open apps.Open, clock ps.Clock) (details json.RawMessage, err error) {
	program, seed := r.cfg.Program, r.cfg.Job.Seed
	m, err := program.Export(all, open)
	if err == nil && r.cfg.Job.OnTiers() {
		m, err = r.overInitial(ctx, m)
	}
	if err != nil {
		return nil, fmt.Errorf("making the model: %w", err)
	}
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	m.Metadata["clock"] = strconv.FormatInt(int64(clock), 10)
	m.Metadata["seed"] = strconv.FormatUint(seed, 10)
	quality, err := apps.Judge(program, m, open)
	if quality != nil {
		details, err = journal.Pack(journal.ExportDetails{Quality: quality})
	}
	if err != nil {
		return nil, fmt.Errorf("measuring the model: %w", err)
	}
	return details, apps.Save(path, program, m)
}

// writeManifest completes a checkpoint of the machines' parts and removes old checkpoints. Calls must not overlap.
func (r *session) writeManifest(ctx context.Context, a elasticity.WriteManifest) (manifest, trouble string, err error) {
	parts := make([]checkpoint.Part, len(a.Parts))
	for i, p := range a.Parts {
		parts[i] = checkpoint.Part(p)
	}
	m, err := checkpoint.NewManifest(r.name, &r.schema, a.Cut, a.Folder, parts)
	if err != nil {
		return "", "", fmt.Errorf("putting the checkpoint together: %w", err)
	}
	if manifest, err = m.Write(ctx, a.Place); err != nil {
		return "", "", err
	}
	r.manifests[checkpoint.Name(manifest)] = true
	if err := checkpoint.Prune(ctx, a.Place, r.cfg.Job.Checkpoint.Keep, func(name string) bool { return r.manifests[name] }); err != nil {
		trouble = err.Error()
	}
	return manifest, trouble, nil
}
