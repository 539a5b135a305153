package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/program/filenames"
)

// UserProgram is a program of the user's own, instead of `train`: docs/programs.md.
type UserProgram struct {
	// Run is the program, run by `bash -euo pipefail` in the workdir. Required, or `train`.
	Run string `yaml:"run"`
	// Setup is a script that runs once on each machine before the first program. Default none.
	Setup string `yaml:"setup"`
	// Image is a [container image](programs.md#container-images) with bash. Default none: the machine's own system.
	Image string `yaml:"image"`
	// Workdir is the folder that programs run in, at most 2 GiB, excluding files that its `.tierignore`, or else `.gitignore`, matches. Default
	// none: an empty folder.
	Workdir string `yaml:"workdir"`
	// Envs are environment variables for `setup` and the program. Default none.
	Envs map[string]string `yaml:"envs"`
	// Secrets are [variables](programs.md#secrets) from the environment of `tierml run` (`env`) or a file (`file`). Default none.
	Secrets map[string]Secret `yaml:"secrets"`
	// State is the state that a program resumes from; see below. Default none: it starts over on every machine.
	State State `yaml:"state"`
	// Progress is how a program reports its progress; see below. Default none.
	Progress Progress `yaml:"progress"`
	// Hours is how long the program, or one task, takes on the first machine of `resources.any_of`, in market time; also written `90m`. Default that
	// of an earlier run of the same name, or 1.
	Hours float64 `yaml:"hours" job:"hours"`
	// Tasks makes the program an [array](programs.md#one-program-a-gang-or-an-array) of this many tasks; `resources.count` run at a time. Default
	// none: one program on all machines.
	Tasks int `yaml:"tasks"`
	// Sweep makes trials that differ in their settings; see below. Default none.
	Sweep Sweep `yaml:"sweep"`
	// Retries is how often a failed program, or task, is restarted. Default 0.
	Retries int `yaml:"retries"`
	// OnLoss is what happens when a gang loses a machine: `restart` restarts all ranks, `replace` [only the lost one](programs.md#elastic-gangs).
	// Default restart.
	OnLoss string `yaml:"on_loss"`
	// Coordinator is the rendezvous program of a gang with `on_loss: replace`, run by `bash` next to the controller; ranks reach it at MASTER_ADDR
	// and MASTER_PORT. Default none.
	Coordinator string `yaml:"coordinator"`
	// OnNotice is a script that runs when the machine is about to be reclaimed, while the program gets SIGTERM. Default none.
	OnNotice string `yaml:"on_notice"`
	// Tiers makes the machines [replicas of one model](python.md). Default none.
	Tiers Tiers `yaml:"tiers"`
	// Ports that the program listens on, for `tierml forward`. Default none.
	Ports []int `yaml:"ports"`
	// CloudAccess lets programs on EC2, and in pods with `store_role`, use the run's own credentials: to read `data/` and the run's
	// folder in the bucket, and write its `program/state`. Default false: programs have no credentials.
	CloudAccess bool `yaml:"cloud_access"`
}

// Secret is the source of a secret's value. One of the two is set.
type Secret struct {
	// Env is a variable of the environment of `tierml run`. Default the secret's own name.
	Env string `yaml:"env"`
	// File holds the value; a line break at its end is not part of it. Default none.
	File string `yaml:"file"`
}

// State is the folder that a program keeps its state in. It is mirrored to the run's store, and is there again before the program
// starts on another machine.
type State struct {
	// Dir is the folder, below the workdir; TIERML_STATE has its full path. Default none.
	Dir string `yaml:"dir"`
	// Every is the time between copies to the store. Default 10m.
	Every time.Duration `yaml:"every"`
	// Marker is a file that the program writes last: the folder is saved only when no other file is newer. Default none: each file
	// counts by itself.
	Marker string `yaml:"marker"`
}

// Progress is how a program reports its progress: in steps, which are whole numbers that grow.
type Progress struct {
	// Line is a regular expression for the program's output; its first group is the step, a second one the loss. Default none.
	Line string `yaml:"line"`
	// File holds the step and, optionally, the loss. Default none; TIERML_PROGRESS_FILE always works.
	File string `yaml:"file"`
	// Of is the step at which the program is done. Default unknown.
	Of int `yaml:"of"`
}

const (
	mostTasks   = 100_000
	mostRetries = 1000
	mostHours   = 100 * 365 * 24
)

// IsProgram reports whether the job runs a user's program by itself: one on tiers is training (OnTiers).
func (j *Job) IsProgram() bool { return j.Run != "" && !j.OnTiers() }

// Values of OnLoss.
const (
	OnLossRestart = "restart"
	OnLossReplace = "replace"
)

// Elastic reports whether the job is a gang of which only a lost rank is replaced.
func (j *Job) Elastic() bool { return j.OnLoss == OnLossReplace }

// programFields are the top-level fields that are only valid with `run`.
var programFields = []string{"setup", "image", "workdir", "envs", "secrets", "state", "progress", "hours", "tasks", "sweep", "retries", "on_loss", "coordinator", "on_notice", "ports", "tiers"}

// work checks that the job has one thing to do: a program, or an application.
func (c *checker) work() {
	if c.written("hosts") {
		c.hosts()
		return
	}
	run, train := c.written("run"), c.written("train")
	switch {
	case run && train:
		c.fault("run", "run and train are both given", "keep one: run for a program of your own, train for a built-in application")
	case !run && !train && !c.meant["train"] && !c.meant["run"]:
		c.fault("train", "is missing", "add "+example("train")+"; or `run:` with a program of your own")
	}
	if !run {
		for _, field := range programFields {
			if c.written(field) && !(field == "sweep" && train) {
				c.fault(field, "has no meaning without run", "add run: and the program, or remove it")
			}
		}
		if train {
			c.train()
			c.sweepOfApp()
		}
		return
	}
	c.userProgram()
}

// userProgram checks a program of the user's own.
func (c *checker) userProgram() {
	j := c.job
	if j.Cloud == CloudNone {
		c.fault("cloud", "none has no machines to run a program on", "write cloud: local, or start the program by hand")
	}
	if c.foreign != nil && j.Cloud == CloudLocal && !c.foreign.programs() {
		c.fault("run", "would run commands on the job server's own host: machines of cloud: local are processes there",
			"write another cloud, or start the job server with --allow "+AllowPrograms)
	}
	if own := (ownProgram{c}); c.written("tiers") {
		own.tiers()
	} else {
		own.alone()
	}
	c.image()
	c.environment()
	c.workdir()
	c.state()
	c.progress()
	c.sweep()
	c.atLeast("tasks", j.Tasks, 1)
	c.upTo("tasks", j.Tasks, mostTasks)
	ownProgram{c}.onLoss()
	c.atLeast("retries", j.Retries, 0)
	c.upTo("retries", j.Retries, mostRetries)
	if c.written("hours") && !(j.Hours > 0) {
		c.fault("hours", "must be above zero", "write how long the program takes, such as hours: 3")
	}
	if j.Hours > mostHours {
		c.fault("hours", fmt.Sprintf("%v is more than a hundred years", j.Hours), "write how long the program takes, such as hours: 3")
	}
	for i, port := range j.Ports {
		field := fmt.Sprintf("ports[%d]", i)
		if port < 1 || port > 65535 {
			c.fault(field, fmt.Sprintf("%d is not a port", port), "write 1 to 65535")
		}
	}
}

// onLoss checks what a gang does after a loss. By then the number of machines and of tasks is known.
func (c ownProgram) onLoss() {
	j := c.job
	if c.written("on_loss") {
		c.oneOf("on_loss", j.OnLoss, OnLossRestart, OnLossReplace)
	}
	switch {
	case j.Elastic() && (c.written("tasks") || c.written("sweep")):
		c.fault("on_loss", "has no meaning with tasks: only the task of a lost machine is repeated anyway", "remove it")
	case j.Elastic() && c.written("tiers"):
		c.fault("on_loss", "has no meaning with tiers: replicas never wait for one that is lost", "remove it")
	case c.written("coordinator") && c.foreign != nil && !c.foreign.programs():
		c.fault("coordinator", "would run a command on the job server's own host", "remove it, or start the job server with --allow "+AllowPrograms)
	case c.written("coordinator") && !j.Elastic():
		c.fault("coordinator", "has a use with on_loss: replace only: rank 0 of other gangs is the master", "add on_loss: replace, or remove it")
	}
}

// ownProgram checks what differs between programs on tiers and others.
type ownProgram struct{ *checker }

// alone checks a program that uses no parameter servers.
func (c ownProgram) alone() {
	j := c.job
	for _, field := range []string{"reliable", "stages"} {
		if c.written(field) {
			c.fault(field, "has no use with run: programs do without reliable machines", "remove it, or add tiers")
		}
	}
	if c.written("resources.vcpu") {
		c.fault("resources.vcpu", "has no meaning with run: a program runs on a number of machines", "write count: 1")
	}
	for field, has := range map[string]bool{"every": j.Checkpoint.Every > 0, "every_clocks": j.Checkpoint.EveryClocks > 0,
		"keep": c.written("checkpoint.keep"), "model": j.Checkpoint.Model != (Memory{}), "overhead": j.Checkpoint.Overhead > 0} {
		if has && c.written("checkpoint."+field) {
			c.fault("checkpoint."+field, "has no meaning with run", "write state: {dir: ckpt, every: 10m}")
		}
	}
	if c.written("policy") || j.Policy != defaults().Policy {
		c.oneOf("policy", j.Policy, Policies()...)
		if serve := append(bidding.NamesForPrograms(), Auto); !c.broken("policy") && !slices.Contains(serve, j.Policy) {
			c.fault("policy", j.Policy+" trains on reliable machines, which programs do without", "write "+orList(serve))
		}
	} else {
		j.Policy = bidding.Checkpoint{}.Name()
	}
	j.Reliable, j.Train, j.Stages = Reliable{}, Train{}, Stages{}
	j.Checkpoint.Keep, j.Checkpoint.Every = 0, 0
}

// imageName is the form of an image's name. It cannot be mistaken for an option.
var imageName = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)

func (c *checker) image() {
	j := c.job
	j.Image = strings.TrimPrefix(j.Image, "docker:") // as in SkyPilot
	if c.written("image") && !imageName().MatchString(j.Image) {
		c.fault("image", fmt.Sprintf("%q cannot name a container image", j.Image), "write a name such as python:3.12-slim, or registry.example.com/team/train:7")
	}
}

// ownVariables are those that machines set for programs.
var ownVariables = pattern.Of(`^(TIERML_.*|RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|NODE_RANK|NNODES)$`)

// variable checks the name of an environment variable for programs.
func (c *checker) variable(field, name string) {
	switch {
	case !envName().MatchString(name):
		c.fault(field, fmt.Sprintf("%q cannot name a variable", name), "use letters, digits and _, not starting with a digit")
	case ownVariables().MatchString(name):
		c.fault(field, name+" is set by TierML", "choose another name: docs/programs.md lists those that programs have")
	}
}

func (c *checker) environment() {
	j := c.job
	for _, v := range slices.Sorted(maps.Keys(j.Envs)) {
		c.variable("envs."+v, v)
	}
	for _, v := range slices.Sorted(maps.Keys(j.Secrets)) {
		field, secret := "secrets."+v, j.Secrets[v]
		c.variable(field, v)
		if _, twice := j.Envs[v]; twice {
			c.fault(field, v+" is below envs, too", "keep one")
		}
		switch {
		case c.foreign != nil: // its value comes with the job
			if secret.File != "" || secret.Env != "" && secret.Env != v {
				c.fault(field, "names a variable or a file of the job server's host", "submit the job by `tierml run`, which sends the value along")
			}
			secret = Secret{Env: v}
		case secret.Env != "" && secret.File != "":
			c.fault(field, "has env and file", "keep one: they are two places for the value")
		case secret.File == "":
			secret.Env = cmp.Or(secret.Env, v)
		default:
			secret.File = c.besideJob(secret.File)
		}
		j.Secrets[v] = secret
	}
}

// besideJob returns an absolute path: relative ones start at the job file's folder, ~ is the user's home.
func (c *checker) besideJob(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

func (c *checker) workdir() {
	j := c.job
	switch {
	case j.Workdir == "":
		return
	case c.foreign != nil && !c.foreign.file(j.Workdir):
		c.fault("workdir", "is not among the uploaded files", "submit the job by `tierml run`, which sends the folder along")
		return
	}
	j.Workdir = c.besideJob(j.Workdir)
	info, err := os.Stat(j.Workdir)
	switch {
	case err == nil && info.Mode().IsRegular() && strings.HasSuffix(j.Workdir, filenames.PackedEnding):
	case err != nil:
		c.fault("workdir", j.Workdir+" cannot be read: "+reason(err), "write the folder that the program runs in, such as workdir: .")
	case !info.IsDir():
		c.fault("workdir", j.Workdir+" is not a folder", "write the folder that the program runs in, such as workdir: .")
	}
}

func (c *checker) state() {
	s := &c.job.State
	if !c.written("state") {
		return
	}
	switch {
	case s.Dir == "":
		c.fault("state", "names no folder", "write state: {dir: ckpt}")
	case !fs.ValidPath(filepath.ToSlash(filepath.Clean(s.Dir))) || filepath.Clean(s.Dir) == ".":
		c.fault("state.dir", fmt.Sprintf("%q is not a folder below the workdir", s.Dir), "write a name such as ckpt; TIERML_STATE has its full name")
	}
	s.Dir = filepath.ToSlash(filepath.Clean(s.Dir))
	if m := s.Marker; m != "" && (m != filepath.Base(m) || m == "." || m == ".." || !filenames.Complete(m)) {
		c.fault("state.marker", fmt.Sprintf("%q cannot name the file", m), "write a name such as DONE, without folders, that does not end in .tmp or .part")
	}
	if s.Every <= 0 && c.written("state.every") {
		c.fault("state.every", "must be above zero", "write a duration, such as 10m")
	}
	setDefault(&s.Every, 10*time.Minute, c.written("state.every"))
}

func (c *checker) progress() {
	p := &c.job.Progress
	if !c.written("progress") {
		return
	}
	if p.Line != "" && p.File != "" {
		c.fault("progress.file", "line and file are both given", "keep one")
	}
	if p.Line != "" {
		pattern, err := regexp.Compile(p.Line)
		switch {
		case err != nil:
			c.fault("progress.line", "is not a regular expression: "+err.Error(), `write one with the step as its first group, such as 'step (\d+)'`)
		case pattern.NumSubexp() < 1:
			c.fault("progress.line", "has no group for the step", `put it into brackets, such as 'step (\d+)'`)
		}
	}
	if p.File != "" && !fs.ValidPath(filepath.ToSlash(filepath.Clean(p.File))) {
		c.fault("progress.file", fmt.Sprintf("%q is not a file below the workdir", p.File), "write a name such as progress.txt")
	}
	c.atLeast("progress.of", p.Of, 1)
}

// mostSecret bounds a secret's value, in bytes.
const mostSecret = 64 << 10

// ReadSecrets returns the values of the job's secrets. Missing ones are reported as Faults.
func (j *Job) ReadSecrets(lookup func(string) (string, bool)) (map[string]string, error) {
	values := map[string]string{}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(j.Secrets)) {
		secret, field := j.Secrets[name], "secrets."+name
		if secret.File != "" {
			text, err := os.ReadFile(secret.File)
			switch {
			case err != nil:
				faults = append(faults, j.Fault(field, secret.File+" cannot be read: "+reason(err), "write the file that holds the secret")...)
			case len(text) > mostSecret:
				faults = append(faults, j.Fault(field, secret.File+" is larger than 64 KiB", "write the file that holds the secret")...)
			}
			values[name] = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
			continue
		}
		value, ok := lookup(secret.Env)
		if !ok || value == "" {
			faults = append(faults, j.Fault(field, "has no value: the environment does not set "+secret.Env, fmt.Sprintf("run `export %s=...` first", secret.Env))...)
		}
		values[name] = value
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return values, nil
}
