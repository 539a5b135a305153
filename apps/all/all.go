// Package all lists the applications that come with the program. It is apart from package apps so that an
// application can import that package.
package all

import (
	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/diloco"
	"github.com/tierml/tierml/apps/dnn"
	"github.com/tierml/tierml/apps/lda"
	"github.com/tierml/tierml/apps/linear"
	"github.com/tierml/tierml/apps/mf"
	"github.com/tierml/tierml/apps/mlr"
)

// drills are applications that programs for drills have besides: see drill.go.
var drills apps.Registry

// Registry returns the applications.
func Registry() apps.Registry {
	registry := apps.Registry{mf.Kind{}, mlr.Kind(), dnn.Networks(), lda.Kind{}}
	for _, kind := range linear.Kinds() {
		registry = append(registry, kind)
	}
	return append(registry, drills...)
}

// Find returns the application of a job: one of the registry, or that of programs on tiers.
func Find(name string) (apps.Kind, error) {
	if name == diloco.Name {
		return diloco.Kind{}, nil
	}
	return Registry().Find(name)
}
