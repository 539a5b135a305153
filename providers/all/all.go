// Package all is the registry of providers, one line each. Importing it, for side effects alone, registers them all.
package all

import (
	_ "github.com/tierml/tierml/providers/ec2"
	_ "github.com/tierml/tierml/providers/gce"
	_ "github.com/tierml/tierml/providers/kube"
)
