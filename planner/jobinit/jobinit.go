// Package jobinit writes a new user's first job file, with a comment on every line. It asks for values that flags do not give, and suggests
// answers from the available prices and catalog.
//
// It does not know where answers come from (a terminal, flags, a test), nor whether the file is valid: config and the planner check that.
package jobinit

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/stopping"
)

// Wanted is the content of a job file. Paths are as the caller has them, not relative to the job file.
type Wanted struct {
	Name string
	// Cloud is one of config's.
	Cloud string
	// Provider is the provider that the local cloud simulates.
	Provider string

	App, Data string
	Clocks    int
	StopLoss  float64 // 0 = all clocks are trained
	// Target is the column of a table to predict, and Ignore are columns to skip; empty = the application chooses.
	Target string
	Ignore []string

	// Script is a user's script, or its folder, instead of an application; Hours is its duration. Program follows from it.
	Script  string
	Hours   float64
	Program *Program

	Count    int
	VCPU     int // of Count machines of the smallest type, if types differ in size; otherwise 0
	Types    []string
	Zones    []string
	Reliable string // a type; empty = the planner chooses
	Budget   string // as written; empty = no limit

	Prices, Catalog string
	Start           time.Time // of a recorded market

	// Settings is the text of an installation, as Terraform prints it: a mapping with the cloud's name at its top.
	Settings string
}

// Write returns the text of a job file for a directory, with the parameters of its application as comments.
func (w Wanted) Write(directory string, params []apps.Param) ([]byte, error) {
	relative := func(path string) string { return relativeTo(directory, path) }
	settings, err := w.installation(relative)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	form := text
	if w.Program != nil {
		form = programText + marketText
	}
	err = template.Must(template.New("job").Funcs(template.FuncMap{
		"path": relative, "list": func(list []string) string { return strings.Join(list, ", ") },
		"quote":   strconv.Quote, // as in YAML, for text in commands
		"rfc3339": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}).Parse(form)).Execute(&b, struct {
		Wanted
		Params       []string
		Installation string
		Stop         stopping.Rules
		Plays        string // the provider that the local cloud simulates, for display; empty = the default
	}{w, describe(params), settings, config.UsualStop(w.App, w.Data), w.plays()})
	if err != nil {
		return nil, fmt.Errorf("writing the job file: %w", err)
	}
	return b.Bytes(), nil
}

// plays returns the provider that the cloud on this host simulates, for display; empty = the default.
func (w Wanted) plays() string {
	if i := slices.Index(config.Played(), w.Provider); i > 0 {
		return config.Title(w.Provider)
	}
	return ""
}

// installation returns the section of a cloud's settings, with the catalog in it.
func (w Wanted) installation(relative func(string) string) (string, error) {
	if w.Cloud == config.CloudLocal || w.Cloud == config.CloudNone {
		return "", nil
	}
	text := strings.TrimRight(w.Settings, "\n")
	first := ""
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			first = strings.Trim(strings.TrimSuffix(trimmed, ":"), `"`)
			break
		}
	}
	if first != w.Cloud {
		return "", fmt.Errorf("the settings are not those of an installation on %s: their first line is not `%s:`; "+
			"write them with `terraform output -raw settings >installation.yaml`", w.Cloud, w.Cloud)
	}
	if w.Catalog != "" && !strings.Contains(text, "catalog:") {
		indent := "  "
		for line := range strings.Lines(text) {
			if trimmed := strings.TrimLeft(line, " "); len(trimmed) < len(line) {
				indent = line[:len(line)-len(trimmed)]
				break
			}
		}
		text += "\n" + indent + "catalog: " + relative(w.Catalog)
	}
	return text, nil
}

// relativeTo writes a path relative to the job file's directory.
func relativeTo(directory, path string) string {
	if path == "" || location.IsURL(path) {
		return path
	}
	to, err := filepath.Abs(path)
	from, err2 := filepath.Abs(directory)
	if errors.Join(err, err2) != nil {
		return path
	}
	if short, err := filepath.Rel(from, to); err == nil && strings.Count(short, "..") <= 3 {
		return filepath.ToSlash(short)
	}
	return to
}

// width is the maximum width of a comment line.
const width = 100

// describe returns an application's parameters with their defaults, in lines.
func describe(params []apps.Param) (lines []string) {
	line := ""
	for _, p := range params {
		word := p.Name + ": " + p.Usual()
		if line != "" && len(line)+len(word) > width {
			lines, line = append(lines, line+","), ""
		}
		if line != "" {
			line += ", "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

const text = `# A job of TierML: what to train, and on which machines. {{if eq .Cloud "none"}}Run it with:  tierml train FILE{{else}}Look at it with:  tierml plan FILE{{end}}
# docs/job.md describes every field, also those that are not here.

` + cloudText + `{{- else if eq .Cloud "none"}}                # no machines are bought: "tierml train" trains in one process
{{- else}}                 # machines are bought there, for real money
{{- end}}
{{- if ne .Cloud "none"}}

resources:                 # transient machines, which do most of the work and may be taken back at any time
{{- if .VCPU}}
  vcpu: {{printf "%-16d" .VCPU}} # as many machines of any type as have them; count: {{.Count}} would be so many of whatever size
{{- else}}
  count: {{.Count}}
{{- end}}
  any_of:                  # the policy chooses among these; max_price: $... after a type limits its price
` + typesText + `
{{- if .Reliable}}
reliable:                  # on demand; they hold the model and stay when all others are gone
  type: {{.Reliable}}
  count: 1
{{- else}}
reliable: auto             # on demand; they hold the model and stay when all others are gone: as small as that allows
{{- end}}

policy: auto               # how machines are chosen: as cost least in the weeks before; docs/policies.md has the others
` + limitsText + `{{- end}}

train:
  app: {{.App}}
  data: {{path .Data}}
{{- if .Ignore}}
  ignore: [{{range $i, $name := .Ignore}}{{if $i}}, {{end}}{{quote $name}}{{end}}]   # columns that say nothing
{{- end}}
{{- if .Target}}
  params: {target: {{quote .Target}}}   # the column to predict
{{- end}}
  holdout: 0.1             # share of the examples that measures how good the model is
  clocks: {{.Clocks}}              # rounds of work, at most
  evaluate_every: 10       # clocks between two measurements
{{- if .StopLoss}}
  stop: {loss: {{.StopLoss}}}     # ends earlier, when the figure is at or below this
{{- else}}
  stop: {min_improvement: {{.Stop.MinImprovement}}, patience: {{.Stop.Patience}}}   # ends earlier, when {{.Stop.Patience}} clocks have not made it that share better
{{- end}}
{{- if .Params}}
  # params{{if .Target}} has{{else}}:{{end}} the application's own settings, with their defaults; write those that differ as {name: value}
{{- range .Params}}
  #   {{.}}
{{- end}}
{{- end}}
` + marketText

// What files of both kinds have in common: the beginning, the end of resources, and limits.
const (
	cloudText = `name: {{.Name}}                  # runs are called {{.Name}}-1, {{.Name}}-2 and so on
cloud: {{.Cloud}}
{{- if eq .Cloud "local"}}               # a cloud on this machine, which replays recorded prices; machines are processes
{{- if .Plays}}
provider: {{printf "%-16s" .Provider}} # its machines, terms and API are those of {{.Plays}}
{{- end}}
`
	typesText = `{{- range .Types}}
    - {type: {{.}}}
{{- end}}
{{- if .Zones}}
  zones: [{{list .Zones}}]
{{- end}}
`
	limitsText = `{{- if .Budget}}
budget: {{.Budget}}                # the run ends cleanly before it costs more
{{- else}}
# budget: $20              # the run ends cleanly before it costs more
{{- end}}
max_duration: 24h          # and ends cleanly after this time
`
)

// marketText ends every file.
const marketText = `{{- if eq .Cloud "local"}}

local:                     # the market that is replayed
{{- if .Prices}}
  prices: {{path .Prices}}
  catalog: {{path .Catalog}}
{{- else}}
  # prices, catalog: a recording of your own; this one is the sample that the program carries along
{{- end}}
  start: {{rfc3339 .Start}}
  speed: {{if .Program}}60                # market seconds in a second: a minute here is an hour, also of the program's hours
{{- else}}600               # market seconds in a second: an hour in six seconds
{{- end}}
{{- end}}
{{- if .Installation}}

{{.Installation}}
{{- end}}
`
