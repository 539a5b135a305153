package jobinit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
)

// Translation is a job file made of another tool's.
type Translation struct {
	Of    string // SkyPilot or dstack
	Text  []byte
	Notes []string // what has no counterpart, or a different meaning
}

// Translate reads a task of SkyPilot or a task configuration of dstack. Path is the file's; its folders are named relative to `into`, the
// folder of the job file.
func Translate(path string, text []byte, into string) (*Translation, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("%s is no task of SkyPilot or dstack: %w", path, err)
	}
	var more any
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has several tasks: write each into a file of its own, and each becomes a job", path)
	}
	t := &translator{from: fields, folder: filepath.Dir(path), into: into, job: &yaml.Node{Kind: yaml.MappingNode}, secrets: map[string]any{}}
	name, _ := t.take("name").(string)
	if name = config.NameOf(name); name == "job" {
		name = config.NameOf(path)
	}
	t.put("name", name)
	of := "SkyPilot"
	if kind, is := t.take("type").(string); is {
		if of = "dstack"; kind != "task" {
			return nil, fmt.Errorf("%s is a %s of dstack: only a task, which ends by itself, becomes a job", path, kind)
		}
		t.dstack()
	} else {
		t.skyPilot()
	}
	if len(t.secrets) > 0 {
		t.put("secrets", t.secrets)
	}
	for _, key := range sortedKeys(t.from) {
		t.note("%s: %s", key, noCounterpart(key))
	}
	if !t.runs {
		return nil, fmt.Errorf("%s runs nothing: it has no %s", path, map[string]string{"SkyPilot": "run", "dstack": "commands"}[of])
	}
	t.note("state: without `state: {dir: ...}` a program begins anew when its machine goes; name the folder of its checkpoints")
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Made of %s, a task of %s. What differs:\n", filepath.Base(path), of)
	for _, n := range t.notes {
		fmt.Fprintf(&out, "# - %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(t.job), encoder.Close()); err != nil {
		return nil, fmt.Errorf("writing the job file: %w", err)
	}
	return &Translation{Of: of, Text: out.Bytes(), Notes: t.notes}, nil
}

// noCounterpart says what to do about common fields that have no counterpart.
func noCounterpart(field string) string {
	switch field {
	case "file_mounts", "files", "repos":
		return "put the files into workdir, or fetch them in setup"
	case "volumes", "storage":
		return "machines have no volumes; state: {dir: ...} keeps a folder, and setup can fetch from a bucket"
	case "service":
		return "there are no services: a job ends by itself"
	case "python", "nvcc":
		return "write an image with it, such as image: python:3.12-slim, or install it in setup"
	}
	return "has no counterpart, and was left out"
}

type translator struct {
	from         map[string]any
	folder, into string
	job          *yaml.Node
	notes        []string
	secrets      map[string]any
	gpus         string // on one machine
	runs         bool
}

func (t *translator) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// take returns a field and marks it as handled.
func (t *translator) take(field string) any {
	value := t.from[field]
	delete(t.from, field)
	return value
}

// put sets a field of the job. Each alternative of machines may have its own, such as an image: the first counts.
func (t *translator) put(field string, value any) {
	for i := 0; i < len(t.job.Content); i += 2 {
		if t.job.Content[i].Value == field {
			if had := t.job.Content[i+1].Value; had != words(value) {
				t.once(fmt.Sprintf("%s: a job has one; %s was left out", field, words(value)))
			}
			return
		}
	}
	put(t.job, field, value)
}

func put(to *yaml.Node, field string, value any) {
	node := &yaml.Node{}
	if text, is := value.(string); is && strings.Contains(text, "\n") {
		node = &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.LiteralStyle, Value: text}
	} else if err := node.Encode(value); err != nil {
		panic(err) // of strings, numbers, lists and mappings of such
	}
	to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: field}, node)
}

// resources translates the machines that a file requests.
func (t *translator) resources(r map[string]any, count any, machines func(map[string]any) []map[string]any) {
	if r == nil {
		r = map[string]any{}
	}
	to := &yaml.Node{Kind: yaml.MappingNode}
	if n := words(count); n != "" && n != "1" {
		put(to, "count", count)
	}
	most := taken(r, "max_price")
	if most == nil {
		most = taken(r, "max_hourly_cost")
	}
	if list := t.types(machines(r)); len(list) > 0 {
		put(to, "any_of", list)
	}
	if most != nil {
		put(to, "max_price", "$"+strings.TrimPrefix(words(most), "$"))
	}
	for _, key := range sortedKeys(r) {
		t.note("resources.%s: %s", key, noCounterpart(key))
	}
	if len(to.Content) > 0 {
		t.job.Content = append(t.job.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "resources"}, to)
	}
}

// types leaves out the needs of machines whose type is named: a job has one or the other.
func (t *translator) types(machines []map[string]any) (all []map[string]any) {
	for _, m := range machines {
		if kind, is := m["type"].(string); is {
			for _, need := range sortedKeys(m) {
				if need != "type" {
					t.once(fmt.Sprintf("resources.%s: %s was left out, as the type %s decides it", need, words(m[need]), kind))
				}
			}
			m = map[string]any{"type": kind}
		}
		if !slices.ContainsFunc(all, func(had map[string]any) bool { return maps.Equal(had, m) }) {
			all = append(all, m)
		}
	}
	return all
}

// where notes that a file names a cloud: jobs run on this computer until an installation is named.
func (t *translator) where(r map[string]any, fields ...string) {
	for _, field := range fields {
		if v := taken(r, field); v != nil {
			t.once(fmt.Sprintf("resources.%s: %s; the job runs on the cloud of this computer until the file says cloud: ec2, gce or kubernetes, with where", field, words(v)))
		}
	}
}

func (t *translator) once(note string) {
	if !slices.Contains(t.notes, note) {
		t.note("%s", note)
	}
}

func (t *translator) workdir(dir string) {
	if rest, home := strings.CutPrefix(dir, "~/"); home {
		t.note("workdir: %s, below your home directory, is not looked for: name the folder", dir)
		dir = filepath.Base(rest)
		t.put("workdir", dir)
		return
	}
	if !filepath.IsAbs(dir) {
		if below, err := filepath.Rel(t.into, filepath.Join(t.folder, dir)); err == nil {
			dir = below
		}
	}
	t.put("workdir", filepath.ToSlash(dir))
}

// envs translates variables. Those without a value, and secrets, come from the environment of tierml run.
func (t *translator) envs(from any, secret bool) {
	envs := map[string]string{}
	take := func(name string, value any) {
		text := words(value)
		switch {
		case secret || value == nil || text == "${"+name+"}":
			t.secrets[name] = map[string]string{"env": name}
			if secret && text != "" {
				t.note("secrets.%s: its value stays in the other file; set the variable where tierml run is started", name)
			}
		default:
			envs[name] = text
		}
	}
	switch from := from.(type) {
	case map[string]any:
		for _, name := range sortedKeys(from) {
			take(name, from[name])
		}
	case []any:
		for _, line := range from {
			name, value, is := strings.Cut(words(line), "=")
			if is {
				take(name, value)
			} else {
				take(name, nil)
			}
		}
	}
	if len(envs) > 0 {
		t.put("envs", envs)
	}
}

func (t *translator) ports(from any) {
	if from == nil {
		return
	}
	list, is := from.([]any)
	if !is {
		list = []any{from}
	}
	var ports []int
	for _, p := range list {
		text := words(p)
		text = text[strings.LastIndexByte(text, ':')+1:]
		n, err := strconv.Atoi(text)
		if err != nil {
			t.note("ports: %s: list each port", text)
			continue
		}
		ports = append(ports, n)
	}
	if len(ports) > 0 {
		t.put("ports", ports)
	}
}

// product combines each element of a list with each of another; an empty list leaves the other unchanged.
func product(a, b []map[string]any) []map[string]any {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	var all []map[string]any
	for _, x := range a {
		for _, y := range b {
			m := map[string]any{}
			for _, part := range []map[string]any{x, y} {
				for k, v := range part {
					m[k] = v
				}
			}
			all = append(all, m)
		}
	}
	return all
}

// gpuCount returns the number at the end of "A100:80GB:8".
func gpuCount(gpu string) string {
	last := strings.TrimSuffix(gpu[strings.LastIndexByte(gpu, ':')+1:], "+")
	if _, err := strconv.Atoi(last); err == nil {
		return last
	}
	if gpu == "" {
		return "0"
	}
	return "1"
}

// withUnit adds a unit to a bare number, before a +.
func withUnit(text, unit string) string {
	number, more := strings.CutSuffix(text, "+")
	if _, err := strconv.ParseFloat(number, 64); err != nil {
		return text
	}
	if more {
		return number + unit + "+"
	}
	return number + unit
}

// exports sets the variables of the other tool that a script uses.
func exports(script string, variables map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(variables) {
		if strings.Contains(script, name) {
			fmt.Fprintf(&b, "export %s=%s\n", name, variables[name])
		}
	}
	return b.String()
}

func lines(from any) string {
	if list, is := from.([]any); is {
		var all []string
		for _, line := range list {
			all = append(all, strings.TrimRight(words(line), "\n"))
		}
		return strings.Join(all, "\n")
	}
	return strings.TrimRight(words(from), " \n")
}

// words returns a scalar as it was written; "" for null.
func words(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func taken(from map[string]any, field string) any {
	value := from[field]
	delete(from, field)
	return value
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
