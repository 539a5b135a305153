// Package all is the registry of providers, one line each. Importing it, for side effects alone, registers them all.
package all

import (
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/ec2"
	"github.com/tierml/tierml/providers/gce"
)

func init() {
	providers.Register(ec2.Provider{}) // the first is the default
	providers.Register(gce.Provider{})
}
