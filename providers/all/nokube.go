//go:build !kube

package all

import "github.com/tierml/tierml/config"

func init() { config.Absent("kubernetes", "build it with go build -tags kube: docs/kubernetes.md") }
