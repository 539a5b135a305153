// Package all lists the applications that come with the program. It is apart from package apps so that an
// application can import that package.
package all

import (
	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/mf"
)

// Registry gives the applications.
func Registry() apps.Registry { return apps.Registry{mf.Kind{}} }
