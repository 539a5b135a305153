package docstest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/watch/alert"
)

func blocksOf(t *testing.T, test string) (all []Block) {
	t.Helper()
	pages, err := ExecutedBy(os.DirFS("../.."), test)
	if err != nil {
		t.Fatal(err)
	}
	for _, blocks := range pages {
		all = append(all, blocks...)
	}
	if len(all) == 0 {
		t.Fatalf("blocks.txt has nothing for %s", test)
	}
	return all
}

// Targets that take minutes or need root are checked with make's own dry run: targets and variables exist. Calls of go test are only
// compiled, up to their list of tests.
func TestMakeLines(t *testing.T) {
	for _, b := range blocksOf(t, "TestMakeLines") {
		for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "sudo ")
			switch {
			case strings.HasPrefix(line, "make "):
				line = "make --dry-run " + strings.TrimPrefix(line, "make ")
			case strings.HasPrefix(line, "go test "):
				folder := strings.TrimSuffix(strings.Fields(line)[2], "/...")
				if found, err := filepath.Glob(filepath.Join("../..", Workdir(b.Page), folder, "*_test.go")); err != nil || len(found) == 0 {
					t.Errorf("%s: there are no tests in %s", b, folder)
				}
				continue
			default:
				t.Errorf("%s: %q is neither make nor go test", b, line)
				continue
			}
			command := exec.Command("bash", "-c", line)
			command.Dir = filepath.Join("../..", Workdir(b.Page))
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", b, line, err, out)
			}
		}
	}
}

// The drill in docs/fakecloud.md is valid.
func TestScriptOnThePage(t *testing.T) {
	for _, b := range blocksOf(t, "TestScriptOnThePage") {
		script, err := fakecloud.ParseScript(b.Text)
		if err != nil || len(script) != 5 {
			t.Errorf("%s: %d steps, %v", b, len(script), err)
		}
	}
}

// An alert on the page has the fields of alerts, with meaningful values.
func TestAlertOnThePage(t *testing.T) {
	for _, b := range blocksOf(t, "TestAlertOnThePage") {
		var a alert.Alert
		d := json.NewDecoder(strings.NewReader(b.Text))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		again, err := json.Marshal(a)
		var x, y map[string]any
		if err != nil || json.Unmarshal(again, &x) != nil || json.Unmarshal([]byte(b.Text), &y) != nil || !reflect.DeepEqual(x, y) {
			t.Errorf("%s: it says %s, an alert says %s (%v)", b, b.Text, again, err)
		}
	}
}

// The mistakes shown in docs/job.md are reported as shown.
func TestErrorsOnThePage(t *testing.T) {
	blocks := blocksOf(t, "TestErrorsOnThePage")
	t.Chdir(t.TempDir())
	job := "name: x\ncloud: local\nresources:\n  cout: 3\n  any_of: [{type: c3.xlarge}]\nreliable: {type: c3.xlarge}\n\nmax_duration: 10\n"
	if err := os.WriteFile("job.yaml", []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load("job.yaml")
	if err == nil {
		t.Fatal("the job loads")
	}
	for _, b := range blocks {
		for line := range strings.Lines(b.Text) {
			if !strings.Contains(err.Error(), strings.TrimSpace(line)) {
				t.Errorf("%s: it says %q; the program says\n%v", b, line, err)
			}
		}
	}
}
