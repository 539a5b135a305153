// Package schema checks docs/job.schema.json with an independent validator, in a module of its own, so that the program does not depend on
// it.
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
	accept := func(name string, text []byte, excerpt bool) {
		value, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		tried++
		if job, ok := value.(map[string]any); ok && excerpt && job["run"] == nil && job["train"] == nil && job["hosts"] == nil {
			job["run"] = "python3 train.py" // the page leaves it out
		}
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
			accept(file, text, false)
		}
	}
	for _, file := range append(files(t, "docs/*.md"), filepath.Join(root, "README.md")) {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllSubmatch(page, -1) {
			if !strings.Contains(string(found[1]), "submit:") { // else groups of a server
				accept(file+":\n"+string(found[1]), found[1], true)
			}
		}
	}
	t.Logf("%d are accepted", tried)
	if tried < 20 {
		t.Errorf("only %d job files were tried", tried)
	}
}

// beyond are the bad files that a schema cannot reject, with the reason.
var beyond = map[string]string{
	"data-is-a-folder": "files", "data-missing-file": "files", "checkpoint-needs-credentials": "files",
	"yaml-alias": "YAML", "yaml-merge": "YAML",
	"zone-is-a-region": "providers' names", "zone-nonsense": "providers' names",
	"duration-too-long": "arithmetic", "money-too-fine": "arithmetic",
	"deadline-before-start": "another field's value", "env-unknown": "another field's value", "reliable-elsewhere": "another field's value",
	"stages-crossed": "another field's value", "sweep-feedback": "another field's value", "sweep-of-app": "another field's value",
	"sweep-of-app-feedback": "another field's value", "sweep-tpe": "another field's value",
}

func TestBadFilesAreRefused(t *testing.T) {
	schema := compiled(t)
	refused, passed := 0, 0
	for _, file := range files(t, "config/testdata/bad/*.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, err := read(text)
		if err != nil {
			continue // an editor reports it itself
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		_, unknowable := beyond[name]
		switch accepted := schema.Validate(value) == nil; {
		case accepted && unknowable:
			passed++
		case accepted:
			t.Errorf("%s is accepted", name)
		case unknowable:
			t.Errorf("%s is refused: it need not be among those that are beyond a schema", name)
		default:
			refused++
		}
	}
	t.Logf("%d refused, %d left to the program", refused, passed)
	if refused < 80 {
		t.Errorf("only %d were refused", refused)
	}
}
