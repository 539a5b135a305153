//go:build rack

package main

import (
	rack "github.com/tierml/tierml/examples/cloud-rack"
	"github.com/tierml/tierml/providers"
)

func init() { providers.Register(rack.Provider{}) } // the example of docs/extend.md, for its test
