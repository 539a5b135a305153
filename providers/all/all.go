// Package all registers all providers, one line each. Import it for side effects.
package all

import (
	_ "github.com/tierml/tierml/providers/ec2"
	_ "github.com/tierml/tierml/providers/gce"
	_ "github.com/tierml/tierml/providers/kube"
)
