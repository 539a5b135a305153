package docstest

import (
	"os"
	"strings"
	"testing"
)

// The worked example of docs/cost.md is the output of ExampleLedger, which go test compares with what is computed.
func TestWorkedExample(t *testing.T) {
	source, err := os.ReadFile("../../cost/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	_, comment, ok := strings.Cut(string(source), "\t// Output:\n")
	if !ok {
		t.Fatal("cost/example_test.go has no output")
	}
	var output strings.Builder
	for line := range strings.Lines(comment) {
		text, isComment := strings.CutPrefix(line, "\t// ")
		if !isComment {
			break
		}
		output.WriteString(text)
	}
	if strings.Count(output.String(), "\n") < 10 || !strings.Contains(string(page), "\n"+output.String()) {
		t.Errorf("docs/cost.md does not show this output:\n%s", output.String())
	}
}
