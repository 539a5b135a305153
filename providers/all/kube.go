//go:build kube

package all

import (
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/kube"
)

func init() { providers.Register(kube.Provider{}) } // not in the ordinary program: see package kube
