package markets

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
)

// blame rewords errors about fields of the job that a flag has replaced: they name the flag, not the job file.
func (o *dryRunOptions) blame(err error) error {
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		return err
	}
	said := make([]error, len(faults))
	ours := false
	for i, f := range faults {
		said[i] = f
		if flag := o.flagFor(f.Field); flag != "" {
			text := flag + ": " + f.Problem
			if f.Instead != "" {
				text += "; " + f.Instead
			}
			said[i], ours = errors.New(text), true
		} else if len(o.traces) > 0 && priced(f.Field) { // the job's own machines, in another job's market
			said[i], ours = fmt.Errorf("--prices %s: %w; or name what it has with --types and --zones", strings.Join(o.traces, ","), f), true
		}
	}
	if !ours {
		return err
	}
	return cli.Usage(errors.Join(said...))
}

// flagFor returns the flag that set a field of the job, with its value; "" if none did.
func (o *dryRunOptions) flagFor(field string) string {
	for _, of := range []struct {
		flag, field, value string
	}{
		{"--types", "resources.any_of", strings.Join(o.fleet.types, ",")},
		{"--zones", "resources.zones", strings.Join(o.fleet.zones, ",")},
		{"--reliable", "reliable", o.fleet.reliable},
		{"--prices", "local.prices", strings.Join(o.traces, ",")},
		{"--catalog", "local.catalog", o.catalog},
	} {
		if of.value != "" && strings.HasPrefix(field, of.field) {
			return of.flag
		}
	}
	return ""
}

// priced reports whether a field names machines that must have a price.
func priced(field string) bool {
	for _, of := range []string{"resources.any_of", "resources.zones", "reliable", "local.capacity"} {
		if strings.HasPrefix(field, of) {
			return true
		}
	}
	return false
}
