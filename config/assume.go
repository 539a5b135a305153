package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/stopping"
)

// Assumption is a value that the job file leaves open. Every plan lists them.
type Assumption struct {
	Field string // "resources.count"
	Text  string // the value as in the job file, and why: "hours: 1, until a run has measured it"
}

// Assume records an assumed value of a missing field, once per field.
func (j *Job) Assume(field, text string) {
	if !slices.ContainsFunc(j.assumed, func(a Assumption) bool { return a.Field == field }) {
		j.assumed = append(j.assumed, Assumption{field, text})
	}
}

// Assumed returns the assumed values of missing fields.
func (j *Job) Assumed() []Assumption { return j.assumed }

// AnySize reports whether the file names no machine, so that the smallest one will do.
func (j *Job) AnySize() bool { return j.anySize }

// Use records how many cores' worth of processor time a past run of the programs took.
func (j *Job) Use(cores float64) { j.cores = cores }

// Cores returns how many cores' worth of processor time a past run of the programs took; 0 = unknown, infinite = all cores.
func (j *Job) Cores() float64 { return j.cores }

// AssumedHours is the assumed duration of a program until a first run has measured it.
const AssumedHours = 1

// The market that cloud: local replays if the job file names none is the recording embedded in the program.
var sampleStart = time.Date(2014, 3, 11, 12, 0, 0, 0, time.UTC)

// Sampled reports whether the cloud replays the embedded recording.
func (l *Local) Sampled() bool { return l.Prices == "" && l.Catalog == "" }

// usualFiles are names of job files and scripts whose jobs are named after their folder.
var usualFiles = []string{"job", "tierml", "task", "train", "main", "run", "finetune", "sky", "dstack", "index", "app", "script"}

var notInNames = pattern.Of(`[^A-Za-z0-9]+`)

// NameOf derives a job's name from a path: from the file's name or, if that says little, from its folder's.
func NameOf(path string) string {
	base, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), "docword."), ".")
	if slices.Contains(usualFiles, strings.ToLower(base)) {
		if full, err := filepath.Abs(path); err == nil {
			if folder := nameFrom(filepath.Base(filepath.Dir(full))); folder != "" {
				return folder
			}
		}
	}
	return cmp.Or(nameFrom(base), "job")
}

func nameFrom(word string) string {
	word = strings.Trim(notInNames().ReplaceAllString(word, "-"), "-")
	return strings.TrimRight(word[:min(len(word), 63)], "-")
}

// assumer fills in missing values, before the checker checks the job.
type assumer struct{ *checker }

// open reports whether the file does not set a field, not even under a misspelt name.
func (c assumer) open(field string) bool { return !c.written(field) && !c.meant[field] }

// assume begins. The planner sets values that depend on the market.
func (c assumer) assume() {
	j := c.job
	if c.written("hosts") {
		return
	}
	run := c.written("run")
	if c.open("name") {
		j.Name = NameOf(j.file)
		j.Assume("name", "name: "+j.Name)
	}
	if j.Cloud == CloudLocal && c.open("local.prices") && c.open("local.catalog") && j.Provider != "gce" {
		c.assumeMarket(run)
	} else if c.open("cloud") {
		j.Assume("cloud", "cloud: "+j.Cloud)
	}
	if j.Cloud != CloudNone && c.open("resources.count") && c.open("resources.vcpu") && !c.broken("resources") {
		j.Resources.Count = Exactly(1)
		j.Assume("resources.count", "resources.count: 1")
	}
	if j.Cloud != CloudNone && c.open("resources.any_of") && c.open("resources.gpu") && !c.broken("resources") {
		j.Resources.AnyOf = []Machine{{CPUs: CPUs{2, true}, Memory: Memory{4096, true}}}
		if j.Cloud != CloudLocal {
			j.Resources.AnyOf[0].Arch = "x86_64"
		}
		j.anySize = true
	}
	if run {
		c.assumeWorkdir()
	} else if c.written("train") {
		c.assumeTraining()
	}
}

// assumeMarket uses the embedded recording.
func (c assumer) assumeMarket(run bool) {
	j := c.job
	text := "cloud: local"
	if c.open("local.start") {
		j.Local.Start = sampleStart
	}
	if run && c.open("local.speed") {
		j.Local.Speed = 1
	}
	if !c.open("cloud") {
		text = "local.prices: the sample"
	}
	j.Assume("cloud", fmt.Sprintf("%s, at the recorded prices of us-west-1a from %s on", text, j.Local.Start.UTC().Format("2006-01-02 15:04")))
}

// approximate words of a shell command.
var commandWords = pattern.Of(`[^\s;|&()<>"'=,]+`)

// assumeWorkdir uses the job file's folder as the workdir of a program that names a file there.
func (c assumer) assumeWorkdir() {
	j := c.job
	if !c.open("workdir") || c.foreign != nil {
		return
	}
	words := commandWords().FindAllString(j.Setup+"\n"+j.Run, -1)
	for i, word := range words {
		if i > 0 && words[i-1] == "-m" { // python3 -m package.module
			word = strings.ReplaceAll(word, ".", "/")
		}
		if found := pathBelow(c.dir, word); found != "" {
			folder := c.besideJob(".")
			if home, err := os.UserHomeDir(); err == nil && folder == filepath.Clean(home) || folder == filepath.Dir(folder) {
				c.fault("workdir", fmt.Sprintf("the program names %s in %s, and all of that folder would be sent to machines", found, folder),
					"put the program into a folder of its own, or write workdir")
				return
			}
			j.Workdir = folder
			j.Assume("workdir", "workdir: "+folder+", where "+found+" is")
			return
		}
	}
}

// pathBelow returns the file or folder below a directory that a word of a command names; empty = none.
func pathBelow(dir, word string) string {
	if !filepath.IsLocal(word) || strings.HasPrefix(word, "-") || word == "." {
		return ""
	}
	for _, name := range []string{word, word + ".py"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && (info.Mode()&fs.ModeType == 0 || info.IsDir()) {
			return name
		}
	}
	return ""
}

// assumeTraining fills in how long to train.
func (c assumer) assumeTraining() {
	t := &c.job.Train
	if t.App == "" || !c.open("train.clocks") || c.broken("train") {
		return
	}
	t.Clocks = UsualClocks(t.App)
	text := fmt.Sprintf("train.clocks: %d", t.Clocks)
	if c.open("train.stop") {
		r := UsualStop(t.App, c.besideJob(t.Data))
		t.Stop.MinImprovement, t.Stop.Patience = r.MinImprovement, int(r.Patience)
		text += fmt.Sprintf(" at most, with stop: {min_improvement: %v, patience: %d}", r.MinImprovement, r.Patience)
	}
	c.job.Assume("train.clocks", text)
}

// UsualClocks returns how many clocks an application usually needs at most.
func UsualClocks(app string) int {
	switch app {
	case "mf":
		return 300
	case "mlr", "dnn":
		return 600
	}
	return 200
}

// smallFile is the size, in bytes, below which a file has some hundred examples.
const smallFile = 64 << 10

// UsualStop ends training when the figure stops improving: patience is about ten passes over the data of mf, six of mlr and dnn, whose
// error rates on few examples move in steps: the held-out tenth of a small file may be without an error long before the model is at its
// best.
func UsualStop(app, data string) stopping.Rules {
	switch app {
	case "mf":
		return stopping.Rules{MinImprovement: 0.0005, Patience: 40}
	case "mlr", "dnn":
		rules := stopping.Rules{MinImprovement: 0.002, Patience: 100}
		if info, err := os.Stat(data); err == nil && info.Size() < smallFile {
			rules.Patience = 300
		}
		return rules
	case "lda":
		return stopping.Rules{MinImprovement: 0.001, Patience: 30}
	}
	return stopping.Rules{MinImprovement: 0.0005, Patience: 50}
}

// Overrides are a command's additions to the job file; the zero value is empty.
type Overrides struct {
	Policy, Name, Budget string
	Envs                 []string // NAME=VALUE, for a program
}

// apply writes them into the file's tree, so that they are checked like the rest of it. The policy is applied later.
func (o Overrides) apply(root *yaml.Node) error {
	if o.Name != "" {
		setField(root, "name", textNode(o.Name))
	}
	if o.Budget != "" {
		setField(root, "budget", textNode(o.Budget))
	}
	if len(o.Envs) == 0 {
		return nil
	}
	envs := fieldNode(root, "envs")
	if envs == nil || envs.Kind != yaml.MappingNode {
		envs = &yaml.Node{Kind: yaml.MappingNode, Line: root.Line, Column: root.Column}
		setField(root, "envs", envs)
	}
	for _, text := range o.Envs {
		name, value, assigned := strings.Cut(text, "=")
		if !assigned {
			var known bool
			if value, known = os.LookupEnv(name); !known {
				return Faults{{File: "--env " + text, Problem: "has no value, and the environment has none", Instead: "write --env " + name + "=VALUE"}}
			}
		}
		setField(envs, name, textNode(value))
	}
	return nil
}

func fieldNode(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func removeField(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

// setField replaces or adds an entry of a mapping.
func setField(n *yaml.Node, name string, value *yaml.Node) {
	value.Line, value.Column = n.Line, n.Column
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return
		}
	}
	key := textNode(name)
	key.Line, key.Column = n.Line, n.Column
	n.Content = append(n.Content, key, value)
}

// Command is a job without a file: a program, or training data.
type Command struct {
	Path        string // of the script or data, which determines the job's folder and name; empty = the present folder, and Name
	Name        string // empty = from Path
	Run, Setup  string
	Data, App   string
	Why         string // the application suits the data
	Params      map[string]any
	Ignore      []string
	State, Line string
	Of          string
}

// Load creates the job.
func (d Command) Load(o Overrides) (*Job, error) {
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 0}
	set := func(name, value string) {
		if value != "" {
			setField(root, name, textNode(value))
		}
	}
	set("name", d.Name)
	set("run", d.Run)
	set("setup", d.Setup)
	sub := func(name string, fields ...string) {
		n := &yaml.Node{Kind: yaml.MappingNode}
		for i := 0; i < len(fields); i += 2 {
			if fields[i+1] != "" {
				setField(n, fields[i], textNode(fields[i+1]))
			}
		}
		if len(n.Content) > 0 {
			setField(root, name, n)
		}
	}
	sub("state", "dir", d.State)
	sub("progress", "line", d.Line, "of", d.Of)
	sub("train", "app", d.App, "data", d.Data)
	if len(d.Params) > 0 {
		n := &yaml.Node{}
		if err := n.Encode(d.Params); err != nil {
			return nil, fmt.Errorf("describing the job: %w", err)
		}
		setField(fieldNode(root, "train"), "params", n)
	}
	if len(d.Ignore) > 0 {
		n := &yaml.Node{}
		if err := n.Encode(d.Ignore); err != nil {
			return nil, fmt.Errorf("describing the job: %w", err)
		}
		setField(fieldNode(root, "train"), "ignore", n)
	}
	job, err := onlyJob(parseTree(cmp.Or(d.Path, "job"), root, os.LookupEnv, o, nil))
	if err != nil {
		return nil, err
	}
	if d.Name != "" && o.Name == "" {
		job.assumed = slices.Insert(job.assumed, 0, Assumption{"name", "name: " + d.Name})
	}
	if d.App != "" {
		job.Assume("train.app", fmt.Sprintf("train.app: %s, as %s", d.App, cmp.Or(d.Why, "the data has its form")))
		if target, is := d.Params["target"].(string); is {
			job.Assume("train.params.target", fmt.Sprintf("train.params.target: %q is the column to predict", target))
		}
		if len(d.Ignore) > 0 {
			job.Assume("train.ignore", fmt.Sprintf("train.ignore: [%s]", strings.Join(d.Ignore, ", ")))
		}
	}
	return job, nil
}
