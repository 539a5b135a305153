package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/plainfile"
	"github.com/tierml/tierml/internal/spelling"
)

// maxSize bounds the job file: larger ones are something else by mistake.
const maxSize = 1 << 20

// maxNodes bounds what a job file has of names and values, as some checks compare them with each other.
const maxNodes = 10_000

// Load reads a job file. Its error is Faults, except for a fault of this program. ${NAME} without a value in env comes from the environment
// of this process.
func Load(path string) (*Job, error) { return LoadWith(path, Overrides{}) }

// LoadWith is Load with a command's overrides.
func LoadWith(path string, o Overrides) (*Job, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return onlyJob(parseFor(path, text, os.LookupEnv, o, nil))
}

// LoadAny reads a job file, or one that describes machines that jobs share: see IsHosts.
func LoadAny(path string) (*Job, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, text, os.LookupEnv)
}

// anyJob makes a job from an installation's settings, only for questions about the cluster.
const anyJob = `
name: any
resources: {count: 1, any_of: [{type: any}]}
train: {app: mf, data: s3://any/any, clocks: 1}
cloud: `

// LoadCluster reads a job file, or a file with only the settings of an installation, as Terraform prints them. It is for questions about
// the cluster: the rest of the job may be made up.
func LoadCluster(path string) (*Job, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	root, err := document(path, text)
	if err != nil {
		return nil, err
	}
	if len(root.Content) == 2 && slices.Contains(RealClouds(), root.Content[0].Value) {
		text = append(text, anyJob+root.Content[0].Value+"\n"...)
	}
	return parse(path, text, os.LookupEnv)
}

func readFile(path string) ([]byte, error) {
	f, err := plainfile.Open(path)
	if err != nil {
		instead := "give the path of a job file; `tierml init` writes one"
		if near := nearFile(path); near != "" && errors.Is(err, fs.ErrNotExist) {
			instead = "did you mean " + near + "?"
		}
		return nil, Faults{{File: path, Problem: "cannot be read: " + reason(err), Instead: instead}}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, Faults{{File: path, Problem: "cannot be read: " + reason(err), Instead: "give the path of a job file"}}
	}
	return text, nil
}

// nearFile returns the file that a misspelt path most likely means; "" = none.
func nearFile(path string) string {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return ""
	}
	defer folder.Close()
	const most = 1000
	names, err := folder.Readdirnames(most)
	if err != nil {
		return ""
	}
	slices.Sort(names)
	kind := filepath.Ext(path)
	var stems []string
	for _, name := range names {
		if stem, same := strings.CutSuffix(name, kind); same {
			stems = append(stems, stem)
		}
	}
	near := spelling.Nearest(strings.TrimSuffix(filepath.Base(path), kind), stems)
	if near == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), near+kind)
}

// IsJobFile reports whether a path is a job file, by its name or, if that is inconclusive, by its content. Unreadable files count as one:
// their reader reports that.
func IsJobFile(path string) bool {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return err != nil && !location.IsURL(path)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return true
	}
	text, err := readFile(path)
	if err != nil {
		return true
	}
	root, err := document(path, text)
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{"run", "train", "cloud", "resources", "hosts", "name"}, func(field string) bool { return fieldNode(root, field) != nil })
}

// reason returns a file system error without the path, which is named already.
func reason(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err.Error()
	}
	return err.Error()
}

// parse parses the text of a job file; lookup is the environment.
func parse(path string, text []byte, lookup func(string) (string, bool)) (*Job, error) {
	return parseFor(path, text, lookup, Overrides{}, nil)
}

// parseFor is parse with a command's overrides, for a submitted job unless foreign is nil.
func parseFor(path string, text []byte, lookup func(string) (string, bool), o Overrides, foreign *Foreign) (*Job, error) {
	root, err := document(path, text)
	if err != nil {
		return nil, err
	}
	return parseTree(path, root, lookup, o, foreign)
}

func parseTree(path string, root *yaml.Node, lookup func(string) (string, bool), o Overrides, foreign *Foreign) (*Job, error) {
	if err := o.apply(root); err != nil {
		return nil, err
	}
	shortForms(root)
	job := defaults()
	job.file = path
	d := &decoder{file: path, lookup: lookup, env: map[string]string{}, positions: map[string]position{}, meant: map[string]bool{}}
	d.positions[""] = position{root.Line, root.Column}
	d.readEnv(root)
	readCloud(root, job)
	if foreign == nil {
		d.install(root, job)
	}
	d.mapping("", root, job)
	if d.more > 0 {
		return nil, d.faults.report(path, d.more)
	}
	if o.Policy != "" {
		job.Policy = o.Policy
	}
	job.Env, job.positions = d.env, d.positions
	c := &checker{job: job, dir: filepath.Dir(path), meant: d.meant, faults: d.faults, foreign: foreign}
	assumer{c}.assume()
	c.check()
	c.foreigner()
	if len(c.faults) > 0 {
		return nil, c.faults.report(path, c.more)
	}
	return job, nil
}

// document parses YAML and checks that it is one plain mapping.
func document(path string, text []byte) (*yaml.Node, error) {
	fault := func(line, column int, problem, instead string) error {
		return Faults{{File: path, Line: line, Column: column, Problem: problem, Instead: instead}}
	}
	if len(text) > maxSize {
		return nil, fault(0, 0, "is larger than 1 MiB", "give a job file")
	}
	var node, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return nil, fault(1, 1, "is empty", "start with run: python3 train.py, or train: {data: ratings.csv}")
	} else if err != nil {
		return nil, syntaxFault(path, text, err)
	} else if len(node.Content) == 0 {
		return nil, fault(1, 1, "is empty", "start with run: python3 train.py, or train: {data: ratings.csv}")
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fault(second.Line, max(1, second.Column), "a second document begins here", "keep one job in a file; remove the line ---")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(path, text, err)
	}
	root := node.Content[0]
	if nodes(root) > maxNodes {
		return nil, fault(root.Line, root.Column, fmt.Sprintf("has more than %d names and values", maxNodes), "give a job file; the program can read long lists from a file in workdir")
	}
	if root.Kind != yaml.MappingNode {
		return nil, fault(root.Line, root.Column, "is not a job", "start with lines such as name: demo, as in examples/demo.yaml")
	}
	if faults := unprintable(path, root); len(faults) > 0 {
		return nil, faults
	}
	return root, nil
}

// nodes counts names, values and what contains them.
func nodes(n *yaml.Node) int {
	sum := 1
	for _, below := range n.Content {
		sum += nodes(below)
	}
	return sum
}

var yamlLine = pattern.Of(`^yaml: (?:line ([0-9]+): )?(.*)$`)

// syntaxFault rewords the YAML library's message and adds the usual cause.
func syntaxFault(path string, text []byte, err error) error {
	for i, content := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
			return Faults{{File: path, Line: i + 1, Column: 1, Problem: "is not text in UTF-8", Instead: "save the file as UTF-8, or name the job file if this is another"}}
		}
	}
	line, words := 1, err.Error()
	if m := yamlLine().FindStringSubmatch(words); m != nil {
		words = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	instead := "look for a missing colon or space, or for indentation that differs from the lines around"
	if strings.Contains(words, "already defined") {
		instead = "keep one of them"
	}
	for i, content := range strings.Split(string(text), "\n") {
		if strings.Contains(content[:len(content)-len(strings.TrimLeft(content, " \t"))], "\t") {
			line, instead = i+1, "indent with spaces instead of the tab"
			break
		}
	}
	return Faults{{File: path, Line: line, Column: 1, Problem: fmt.Sprintf("is not valid YAML: %s", words), Instead: instead}}
}
