// Package kube is the provider for an existing Kubernetes cluster: machines are pods, the cluster's autoscaler is the
// market, and its queues are respected. providers/kube/api calls the API server; this package has the block of the job
// file, the market, doctor's checks and what a pod knows about itself.
package kube
