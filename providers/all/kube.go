//go:build kube

package all

import _ "github.com/tierml/tierml/providers/kube" // not in the ordinary program: see package kube
