// Package examples has the demo's job file, embedded for `tierml demo`.
package examples

import _ "embed"

// Demo is demo.yaml. It names files of examples/data.
//
//go:embed demo.yaml
var Demo []byte
