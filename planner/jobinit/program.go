package jobinit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
)

// Program is a program of the user's own, as far as its files reveal it. Everything in it is a proposal.
type Program struct {
	Folder   string // in which it runs, as given by the caller
	Script   string // in the folder
	Setup    string // empty = nothing to install
	Run      string
	State    string // folder of its state; empty = not found
	Line, Of string // patterns for progress in its output, and for the last step; empty = not found
	Calls    bool   // it imports the package tierml, which reports its progress
	Hours    float64
}

// usualScripts are the usual names of a folder's program, the likeliest first.
var usualScripts = []string{"train.py", "main.py", "run.py", "finetune.py", "train.sh", "run.sh", "main.sh"}

// isProgram reports whether a path is a script or a folder rather than training data.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || interpreter(path) != "" || executable(path))
}

// interpreters maps the extensions of scripts to the programs that run them.
var interpreters = map[string]string{".py": "python3", ".sh": "bash", ".r": "Rscript", ".jl": "julia", ".js": "node", ".pl": "perl", ".rb": "ruby",
	notebook: "papermill"}

const notebook = ".ipynb"

func interpreter(script string) string { return interpreters[strings.ToLower(filepath.Ext(script))] }

// executable reports whether a file can be run directly: its owner may run it, and its content is executable.
func executable(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	for _, mark := range []string{"#!", "\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"} { // scripts; Linux; Macs
		if bytes.HasPrefix(head, []byte(mark)) {
			return true
		}
	}
	return false
}

// Inspect examines a script, or the folder of one.
func Inspect(path string) (p Program, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return p, fmt.Errorf("there is no script or folder %s", path)
	}
	p.Folder, p.Script = filepath.Dir(path), filepath.Base(path)
	if info.IsDir() {
		p.Folder = path
		if p.Script, err = scriptOf(path); err != nil {
			return p, err
		}
	}
	command := interpreter(p.Script)
	switch {
	case command == "" && executable(filepath.Join(p.Folder, p.Script)):
		p.Run = shellWord("./" + p.Script)
		return p, nil
	case command == "":
		return p, fmt.Errorf("%s is neither a script (.py, .sh, .R, .jl, .ipynb) nor an executable file: write a script that starts the program", p.Script)
	case strings.EqualFold(filepath.Ext(p.Script), notebook):
		p.notebook()
		return p, nil
	}
	text, err := os.ReadFile(filepath.Join(p.Folder, p.Script))
	if err != nil {
		return p, fmt.Errorf("reading the script: %w", err)
	}
	if command == "python3" {
		p.Setup = installs(p.Folder)
		if p.Setup != "" {
			command = ".venv/bin/python"
		}
	}
	p.Run = command + " " + shellWord(p.Script)
	p.read(string(text))
	return p, nil
}

// notebook executes a notebook with papermill, which prints what the cells print; the notebook with its results is the state.
func (p *Program) notebook() {
	p.Setup = "command -v papermill >/dev/null || { python3 -m venv .venv && .venv/bin/pip install papermill ipykernel; }"
	if more := installs(p.Folder); more != "" {
		p.Setup = more + " papermill ipykernel"
	}
	name := shellWord(p.Script)
	p.State = "executed"
	p.Run = `PATH="$PWD/.venv/bin:$PATH" papermill --log-output --no-progress-bar ` + name + ` "$TIERML_STATE"/` + name
}

// scriptOf returns the script of a folder: the one with a usual name, or the only one.
func scriptOf(folder string) (string, error) {
	for _, name := range usualScripts {
		if file(filepath.Join(folder, name)) == nil {
			return name, nil
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("looking for a script: %w", err)
	}
	var all []string
	for _, e := range entries {
		if e.Type().IsRegular() && interpreter(e.Name()) != "" && e.Name() != "setup.py" {
			all = append(all, e.Name())
		}
	}
	switch len(all) {
	case 0:
		return "", fmt.Errorf("%s has no script (.py or .sh); name a file of training data, or a script", folder)
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("%s has several scripts: name one of %s", folder, strings.Join(all, ", "))
}

// installs returns the setup of a folder in Python.
func installs(folder string) string {
	what := ""
	switch {
	case file(filepath.Join(folder, "requirements.txt")) == nil:
		what = "-r requirements.txt"
	case file(filepath.Join(folder, "pyproject.toml")) == nil:
		what = "."
	default:
		return ""
	}
	return "python3 -m venv .venv && .venv/bin/pip install " + what
}

var (
	callsUs = pattern.Of(`(?m)^\s*(import tierml\b|from tierml import)`)
	keeps   = pattern.Of(`\btierml\.keep\(|TIERML_STATE|\btierml\.state\(`)
	// A folder of checkpoints: assigned to a parameter or an option with such a name, or named like that.
	folderGiven  = pattern.Of(`(?:output|checkpoint|ckpt|save)[-_]?(?:dir|path|folder)\s*["']?\s*[,=:][^"'\n]*["'](?:\./)?([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:/[^"']*)?["']`)
	folderCalled = pattern.Of(`["'](?:\./)?((?:checkpoint|ckpt)s?)(?:/[^"']*)?["']`)
	folderInBash = pattern.Of(`(?:--(?:output|checkpoint|ckpt|save)[-_](?:dir|path)[ =]|mkdir -p )(?:\./)?([A-Za-z0-9_][A-Za-z0-9_.-]*)`)
	// A printed line with the number of a step.
	printed = pattern.Of(`(?i)(?:print|info|echo|write)\b[^\n]*?\b(step|epoch|iteration|iter|round)(["']?\s*[:=#]?\s*)(?:\{|["']\s*,|%d|\$)`)
	stepsOf = pattern.Of(`(?i)(?:for\s+\w*(?:step|epoch|iter|i)\w*\s+in\s+(?:range|trange)\(\s*(?:\w+\s*,\s*)?(\d+)\s*\)|(?:max_steps|num_steps|total_steps|num_epochs|epochs|steps)["']?\s*(?:=|,[^\n]*default\s*=)\s*(\d+)\b)`)
)

// read finds in a script's text where it keeps its state and how it reports progress.
func (p *Program) read(text string) {
	p.Calls = callsUs().MatchString(text)
	if keeps().MatchString(text) {
		p.State = "ckpt"
	}
	for _, folder := range []*regexp.Regexp{folderGiven(), folderCalled(), folderInBash()} {
		if m := folder.FindStringSubmatch(text); m != nil && p.State == "" {
			p.State = m[1]
		}
	}
	if m := printed().FindStringSubmatch(text); m != nil && !strings.Contains(text, "tierml.progress(") {
		p.Line = "(?i)" + strings.ToLower(m[1]) + `\W*(\d+)`
		for _, of := range stepsOf().FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(cmp.Or(of[1], of[2])); err == nil && n > 0 {
				p.Of = of[1] + of[2]
				break
			}
		}
	}
}

// shellWord quotes a name if a shell requires it.
func shellWord(name string) string {
	if plainWord().MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

var plainWord = pattern.Of(`^[A-Za-z0-9_./-]+$`)

// CommandOf returns the job for a script, a folder with one, or a file of training data, in which case target is the column to predict.
func CommandOf(path, target string) (*config.Command, error) {
	if !isProgram(path) {
		return dataCommand(path, target)
	}
	if target != "" {
		return nil, errors.New("--target is for a file of data")
	}
	p, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	c := &config.Command{Path: filepath.Join(p.Folder, p.Script), Run: p.Run, Setup: p.Setup, State: p.State, Line: p.Line, Of: p.Of}
	if slices.Contains(usualScripts, p.Script) || filepath.Clean(path) == filepath.Clean(p.Folder) {
		full, err := filepath.Abs(p.Folder)
		if err != nil {
			return nil, err
		}
		c.Name = config.NameOf(full)
	}
	return c, nil
}

// ofLine matches the place of a line's fault; that of the first line is more than a bad line.
var ofLine = pattern.Of(`:([2-9]|[1-9][0-9]+): `)

func dataCommand(path, target string) (*config.Command, error) {
	if location.IsURL(path) {
		return &config.Command{Name: config.NameOf(path), Data: path}, nil
	}
	if err := readable(path); err != nil {
		return nil, err
	}
	found := Propose(path, target)
	switch {
	case target != "" && found.Target == "":
		return nil, fmt.Errorf("--target %s: %s has no such column with values to predict; it has %s", target, path, strings.Join(Propose(path, "").Columns, ", "))
	case found.Guess:
		return nil, fmt.Errorf("%s: nothing says which column to predict: add --target COLUMN, one of %s", path, strings.Join(found.Columns, ", "))
	case found.App == "" && found.Why != "":
		leave := ""
		if ofLine().MatchString(found.Why) {
			leave = "; `max_bad_lines: N` under train in a job file leaves up to N such lines out"
		}
		return nil, fmt.Errorf("%s%s; docs/applications.md has the forms that are read", found.Why, leave)
	case found.App == "":
		return nil, fmt.Errorf("%s is no job file, script or training data of a known form; docs/applications.md has the forms, and `tierml init --data %[1]s` asks", path)
	}
	c := &config.Command{Path: path, Name: config.NameOf(path), Data: filepath.Base(path), App: found.App, Why: found.Why, Ignore: found.Ignore}
	if found.Target != "" {
		c.Params = map[string]any{"target": found.Target}
	}
	return c, nil
}

// program asks the user for what the files do not show.
func (d *Dialogue) program(w *Wanted) error {
	p, err := Inspect(w.Script)
	if err != nil {
		return fmt.Errorf("--script: %w", err)
	}
	w.Program = &p
	folder, err := filepath.Abs(p.Folder)
	if err != nil {
		return err
	}
	base := filepath.Base(folder)
	if stem := strings.TrimSuffix(p.Script, filepath.Ext(p.Script)); !slices.Contains(usualScripts, p.Script) {
		base = stem
	}
	if w.Name, err = d.ask(w.Name, question{flag: "set name", text: "Name of the job", suggestion: d.named(base), check: name}); err != nil {
		return err
	}
	given := ""
	if w.Hours != 0 {
		given = fmt.Sprint(w.Hours)
	}
	hours, err := d.ask(given, question{flag: "set hours", text: "About how many hours it takes on one machine, undisturbed", suggestion: "1", check: figure})
	if err != nil {
		return err
	}
	p.Hours, err = strconv.ParseFloat(hours, 64)
	if err != nil {
		return errors.New("--set hours: " + hours + " is not a number")
	}
	d.Clouds = slices.DeleteFunc(slices.Clone(d.Clouds), func(cloud string) bool { return cloud == "none" }) // it has no machines
	return nil
}

const programText = `# A job of TierML: a program of your own, on machines that may be taken back. Look at it with:  tierml plan FILE
# docs/programs.md says what the program finds there, docs/job.md describes every field.

` + cloudText + `{{- else}}                 # machines are bought there, for real money
{{- end}}

resources:
  count: {{.Count}}                 # above 1: as many start together, with ranks; with tasks: N, so many of the tasks run at a time
  any_of:                  # the cheapest of these, spot or on demand; max_price: $... after a type limits its price
` + typesText + `
workdir: {{path .Program.Folder}}               # is copied to each machine, without what its .tierignore names
{{- if .Program.Setup}}
setup: {{quote .Program.Setup}}   # once on each machine
{{- end}}
run: {{quote .Program.Run}}
# envs: {EPOCHS: "3"}      # variables; secrets: {HF_TOKEN: {}} takes one from your environment, and puts it into no file
{{- if .Program.State}}
state: {dir: {{.Program.State}}, every: 10m}   # is there again on the next machine; write files under another name, and rename them
{{- else}}
# state: {dir: ckpt, every: 10m}   # a folder that is there again on the next machine: without it, the program begins anew
{{- end}}
{{- if .Program.Line}}
progress: {line: {{quote .Program.Line}}{{if .Program.Of}}, of: {{.Program.Of}}{{end}}}   # the line of its output that says how far it is
{{- else if .Program.Calls}}
# progress: comes from tierml.progress(step)
{{- else}}
# progress: {line: 'step (\d+)', of: 1000}   # the line of its output that says how far it is
{{- end}}
hours: {{.Program.Hours}}                 # a guess at what it takes on one machine, until a run has measured it
retries: 1                 # how often a failure of its own is tried again; evictions do not count

policy: checkpoint         # how machines are chosen; docs/policies.md compares the others
` + limitsText + ``
