package jobmanager

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/program/mirror"
	"github.com/tierml/tierml/program/pack"
)

var (
	programName  = pattern.Of(`^(rank|task)-[0-9]{1,9}$`)
	manifestName = pattern.Of(`^[0-9]{1,20}-[0-9]{1,20}$`)
)

// serveState returns the saved state of a program, packed, as in its manifest.
func (m api) serveState(w http.ResponseWriter, r *http.Request) error {
	j, dir, err := m.path(r)
	if err != nil {
		return err
	}
	program, manifest := r.PathValue("program"), r.FormValue("manifest")
	if !programName().MatchString(program) || !manifestName().MatchString(manifest) {
		return refuse(http.StatusBadRequest, "a state is that of a program such as rank-0, with ?manifest= as the journal's line program-saved names it")
	}
	state, err := jobrun.ReadState(dir)
	if err != nil {
		return fmt.Errorf("finding the state of %s: %w", j.Run, err)
	}
	folder, err := m.inputs.scratch()
	if err != nil {
		return fmt.Errorf("copying the state of %s: %w", program, err)
	}
	defer os.RemoveAll(folder)
	copied := filepath.Join(folder, program)
	giveBack := func() {}
	defer func() { giveBack() }()
	room := func(bytes int64) (err error) {
		giveBack, err = m.inputs.reserve(bytes)
		return err
	}
	if _, err := mirror.Copy(r.Context(), state.Store(), program, manifest, r.FormValue("digest"), copied, room); errors.Is(err, mirror.ErrDamaged) { // or replaced by newer ones
		return refuse(http.StatusConflict, "%w; ask for the newest", err)
	} else if refused, ok := errors.AsType[refusal](err); ok {
		return refused
	} else if err != nil {
		return fmt.Errorf("copying the state of %s: %w", program, err)
	}
	w.Header().Set("Content-Type", "application/zstd")
	_, err = pack.Pack(r.Context(), copied, w, pack.Options{Whole: true})
	if err != nil {
		m.cfg.Log.Warn("a state was not sent in full", "job", j.Run, "program", program, "error", err) // the client finds an incomplete archive
	}
	return nil
}
