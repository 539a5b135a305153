// Package all lists the applications that come with the program. It is separate from package apps because applications import that package.
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

// drills are additional applications for drills: see drill.go.
var drills apps.Registry

// Registry returns the applications.
func Registry() apps.Registry {
	registry := apps.Registry{mf.Kind{}, mlr.Kind(), dnn.Networks(), lda.Kind{}}
	for _, kind := range linear.Kinds() {
		registry = append(registry, kind)
	}
	return append(registry, drills...)
}

// Find returns the application of a job: a registered one, or the one for programs on tiers.
func Find(name string) (apps.Kind, error) {
	if name == diloco.Name {
		return diloco.Kind{}, nil
	}
	return Registry().Find(name)
}
