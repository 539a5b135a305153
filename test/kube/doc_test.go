// Package kube_test runs whole jobs on a real Kubernetes API server, with nodes that run pods as processes of this host: make test-kube.
package kube_test
