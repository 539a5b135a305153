package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tierml/tierml/config"
	_ "github.com/tierml/tierml/providers/all"
)

// A run on the fake cloud is resumed as it began, without a question.
func TestCostsNothing(t *testing.T) {
	for _, c := range []struct {
		text           string
		began, resumed bool
	}{{"run: echo x\n", true, true}, {"run: echo x\ncloud: local\n", false, true}} {
		path := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		job, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if costsNothing(job, false) != c.began || costsNothing(job, true) != c.resumed {
			t.Errorf("%q: %v to begin, %v to resume", c.text, costsNothing(job, false), costsNothing(job, true))
		}
	}
}
