package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SetCheckpoint declares fields of checkpoint in addition to those of the job file.
func (j *Job) SetCheckpoint(fields map[string]string) error {
	if err := j.Checkpoint.Set(fields); err != nil {
		return err
	}
	for name := range fields {
		j.positions["checkpoint."+name] = j.positions[""]
	}
	return nil
}

// Set declares costs like the fields of the job file's checkpoint, such as save = 30s. Other fields do not change.
func (p *Checkpoint) Set(fields map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, wrong := fields[name], (*mistake)(nil)
		switch name {
		case "model":
			p.Model, wrong = parseMemory(value)
		case "bandwidth":
			p.Bandwidth, wrong = parseRate(value)
		case "save":
			p.Save, wrong = parseDuration(value)
		case "restart":
			p.Restart, wrong = parseDuration(value)
		case "overhead":
			p.Overhead, wrong = parseNumber(value)
		case "every":
			p.Every, wrong = parseDuration(value)
		default:
			faults = append(faults, fmt.Errorf("%q does not exist: there is model, bandwidth, save, restart, overhead, every", name))
		}
		if wrong != nil {
			faults = append(faults, fmt.Errorf("%s: %s; %s", name, wrong.problem, wrong.instead))
		}
	}
	for _, wrong := range p.mistakes() {
		faults = append(faults, fmt.Errorf("%s: %s; %s", wrong.field, wrong.problem, wrong.instead))
	}
	return errors.Join(faults...)
}

// fieldMistake is a mistake in a field of a section.
type fieldMistake struct {
	field string
	mistake
}

// maxOverhead is the share above which percent was probably meant.
const maxOverhead = 10

func (p Checkpoint) mistakes() (out []fieldMistake) {
	if p.Model.OrMore {
		out = append(out, fieldMistake{"model", *wrong("write "+strings.TrimSuffix(p.Model.String(), "+"), "%s is not an amount", p.Model)})
	}
	if p.Overhead > maxOverhead {
		out = append(out, fieldMistake{"overhead",
			*wrong("write a share, such as 0.17", "%v would make work take %v times as long", p.Overhead, 1+p.Overhead)})
	}
	return out
}
