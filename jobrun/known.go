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

	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// remembered is a setting that served a run best. It is of use to runs of the same application, shape of the model and type of
// machine.
type remembered struct {
	App     string    `json:"app"`
	Shape   string    `json:"shape"`
	Machine string    `json:"machine"`
	Run     string    `json:"run"`
	At      time.Time `json:"at"`
	tuning.Known
	Pace    float64 `json:"pace"`         // seconds per clock
	Default float64 `json:"default_pace"` // the same of the default
}

// mostRemembered bounds the file; the oldest go.
const mostRemembered = 200

// settingsFile is kept beside the runs.
func (r *session) settingsFile() string {
	return filepath.Join(filepath.Dir(r.cfg.Directory), rundir.SettingsFile)
}

// kin is what runs have in common that know each other's settings.
func (r *session) kin() remembered {
	var shape, types []string
	for _, t := range r.schema.Tables {
		shape = append(shape, fmt.Sprintf("%s %dx%d", t.Name, t.Rows, t.Width()))
	}
	shape = append(shape, fmt.Sprintf("%d partitions, %d splits, staleness %d", r.schema.Partitions, r.schema.Splits, r.schema.Staleness))
	for _, p := range r.cfg.Choice.Pools {
		if !slices.Contains(types, p.Type.Name) {
			types = append(types, p.Type.Name)
		}
	}
	slices.Sort(types)
	return remembered{App: r.cfg.Job.Train.App, Shape: strings.Join(shape, "; "), Machine: strings.Join(types, " ")}
}

func (m remembered) like(other remembered) bool {
	return m.App == other.App && m.Shape == other.Shape && m.Machine == other.Machine
}

// known are the settings that served runs like this one, the newest first.
func (r *session) known() (known []tuning.Known) {
	all, err := readRemembered(r.settingsFile())
	if err != nil {
		r.cfg.Log.Warn("settings of former runs are not used", "error", err)
	}
	me := r.kin()
	for _, m := range slices.Backward(all) {
		if m.like(me) {
			known = append(known, m.Known)
		}
	}
	return known
}

// remember keeps what served this run best for those to come. A file that is lost costs them some trials.
func (r *session) remember() {
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
	all, err := readRemembered(file)
	if err != nil {
		return err
	}
	m := r.kin()
	m.Run, m.At, m.Known, m.Pace, m.Default = filepath.Base(r.cfg.Directory), time.Now().UTC().Truncate(time.Second), best.Known, best.Pace, best.Default
	all = slices.DeleteFunc(all, func(o remembered) bool { return o.like(m) && o.Machines == m.Machines })
	all = append(all, m)
	text, err := json.MarshalIndent(all[max(len(all)-mostRemembered, 0):], "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	next := fmt.Sprintf("%s.%d", file, os.Getpid()) // two runs may end at once: the last one's file stays
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

func readRemembered(file string) (all []remembered, err error) {
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
