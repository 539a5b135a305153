package jobrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
)

// savedSetting is a setting that served a run best. It is useful to runs of the same application, model shape and machine type.
type savedSetting struct {
	App     string    `json:"app"`
	Shape   string    `json:"shape"`
	Machine string    `json:"machine"`
	Run     string    `json:"run"`
	At      time.Time `json:"at"`
	tuning.Known
	Pace    float64 `json:"pace"`         // seconds per clock
	Default float64 `json:"default_pace"` // the same for the default
}

// mostRemembered bounds the file; the oldest are dropped.
const mostRemembered = 200

// settingsFile is next to the runs.
func (r *session) settingsFile() string {
	return filepath.Join(filepath.Dir(r.cfg.Directory), rundir.SettingsFile)
}

// kinOf returns the key of runs that share settings.
func kinOf(job *config.Job, schema *ps.Schema, choice planner.Resolved) savedSetting {
	var shape, types []string
	for _, t := range schema.Tables {
		shape = append(shape, fmt.Sprintf("%s %dx%d", t.Name, t.Rows, t.Width()))
	}
	shape = append(shape, fmt.Sprintf("%d partitions, %d splits, staleness %d", schema.Partitions, schema.Splits, schema.Staleness))
	for _, p := range choice.Pools {
		if !slices.Contains(types, p.Type.Name) {
			types = append(types, p.Type.Name)
		}
	}
	slices.Sort(types)
	return savedSetting{App: job.Train.App, Shape: strings.Join(shape, "; "), Machine: strings.Join(types, " ")}
}

func (m savedSetting) like(other savedSetting) bool {
	return m.App == other.App && m.Shape == other.Shape && m.Machine == other.Machine
}

// Known returns the settings that served similar runs, the newest first, from a file next to the runs.
func Known(file string, job *config.Job, schema *ps.Schema, choice planner.Resolved) (known []tuning.Known, err error) {
	all, err := readRemembered(file)
	kin := kinOf(job, schema, choice)
	for _, m := range slices.Backward(all) {
		if m.like(kin) {
			known = append(known, m.Known)
		}
	}
	return known, err
}

// saveSetting keeps this run's best setting for later runs. A lost file only costs them some trials.
func (r *session) saveSetting() {
	if err := r.writeRemembered(); err != nil {
		r.cfg.Log.Warn("the settings of this run are not kept", "error", err)
	}
}

func (r *session) writeRemembered() error {
	entries, _, err := journal.ReadFile(filepath.Join(r.cfg.Directory, rundir.JournalFile))
	if err != nil {
		return err
	}
	var lines []journal.TuneDetails
	for _, e := range entries {
		if e.Kind == journal.Tune {
			d, err := e.TuneDetails()
			if err != nil {
				return err
			}
			lines = append(lines, d)
		}
	}
	best, ok := tuning.Learned(lines)
	if !ok {
		return nil
	}
	file := r.settingsFile()
	release, err := rundir.Alone(filepath.Dir(file)) // jobs of a service end at the same time
	if err != nil {
		return err
	}
	defer release()
	all, err := readRemembered(file)
	if err != nil {
		return err
	}
	m := kinOf(r.cfg.Job, &r.schema, r.cfg.Choice)
	m.Run, m.At, m.Known, m.Pace, m.Default = filepath.Base(r.cfg.Directory), time.Now().UTC().Truncate(time.Second), best.Known, best.Pace, best.Default
	all = slices.DeleteFunc(all, func(o savedSetting) bool { return o.like(m) && o.Machines == m.Machines })
	all = append(all, m)
	text, err := json.MarshalIndent(all[max(len(all)-mostRemembered, 0):], "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := atomicfile.Write(file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

func readRemembered(file string) (all []savedSetting, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return all, nil
}
