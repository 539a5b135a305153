// Package schema tries docs/job.schema.json with a validator that nobody here wrote, in a module of its own, so that the program
// does not depend on it.
package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/job.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("job.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("job.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// read reads a job file as an editor does: times are texts.
func read(text []byte) (any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	timesAsTexts(&document)
	var value any
	if err := document.Decode(&value); err != nil {
		return nil, err
	}
	written, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(written))
}

func timesAsTexts(n *yaml.Node) {
	if n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		timesAsTexts(child)
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	return found
}

var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

func TestJobFilesAreAccepted(t *testing.T) {
	schema := compiled(t)
	tried := 0
	accept := func(name string, text []byte) {
		value, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		tried++
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, pattern := range []string{"examples/*.yaml", "examples/programs/*.yaml", "config/testdata/good*.yaml"} {
		for _, file := range files(t, pattern) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			accept(file, text)
		}
	}
	for _, file := range append(files(t, "docs/*.md"), filepath.Join(root, "README.md")) {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllSubmatch(page, -1) {
			if !strings.Contains(string(found[1]), "submit:") { // else groups of a server
				accept(file+":\n"+string(found[1]), found[1])
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d job files were tried", tried)
	}
}

// beyond is what a schema cannot know: files, environment variables, other fields, providers' names.
var beyond = regexp.MustCompile(`has no (use|meaning)|no such file|is not a file|needs |is not after|is not in |is the same as|leaves nothing|not valid YAML|` +
	`second document|anchor|merge|two_above|is there twice|is not replaced|is not in env|refers to another|does not set it|cannot name a variable|cannot be a name|` +
	`both given|plain works|names no machine|is finer|must be above zero|no machine is free|cannot hold|is a region|is not a zone|is a store|lets trials|is a range, and|` +
	`is neither a list|no test loss|is 5, and|is 8, and|is not an amount; write|covers machines|buys no machines|has a type and a need|out of range; write a year|longer than a hundred|` +
	`app: is missing|train: is missing|is missing; (do:|cloud:|below)|is empty|not a job|environment|credential`)

func TestBadFilesAreRefused(t *testing.T) {
	schema := compiled(t)
	refused, passed := 0, 0
	for _, file := range files(t, "config/testdata/bad/*.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		message, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		value, err := read(text)
		if err != nil {
			continue // an editor says so itself
		}
		switch err := schema.Validate(value); {
		case err != nil:
			refused++
		case beyond.Match(message):
			passed++
		default:
			t.Errorf("%s is accepted; the program says %s", filepath.Base(file), message)
		}
	}
	t.Logf("%d refused, %d left to the program", refused, passed)
	if refused < 40 {
		t.Errorf("only %d were refused", refused)
	}
}
