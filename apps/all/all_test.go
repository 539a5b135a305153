package all

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
)

func TestFind(t *testing.T) {
	kind, err := Registry().Find("mf")
	if err != nil || kind.Name() != "mf" {
		t.Errorf("%v, %v; want mf", kind, err)
	}
	for name, want := range map[string]string{"mff": `did you mean "mf"?`, "lassso": `did you mean "lasso"?`, "word2vec": "there are mf, mlr, dnn, lda, linear, ridge, lasso, robust, logistic, svm"} {
		if _, err := Registry().Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// Every declaration can be resolved with its own defaults, which lie within their limits, and names differ.
func TestDeclarations(t *testing.T) {
	for _, kind := range Registry() {
		given := apps.Params{}
		for _, p := range kind.Params() {
			if _, twice := given[p.Name]; twice || p.Unit == "" || p.Why == "" {
				t.Errorf("%s: parameter %q is declared twice, or without unit or reason", kind.Name(), p.Name)
			}
			given[p.Name] = p.Default
			if len(p.Choices) > 0 {
				given[p.Name] = p.Choices[int(p.Default)]
			}
		}
		if _, err := given.Resolve(kind.Params()); err != nil {
			t.Errorf("%s: %v", kind.Name(), err)
		}
	}
}
