// Package kube is a Kubernetes cluster that exists as a provider: machines are pods, the cluster's autoscaler is the market, and
// its queues are respected. providers/kube/api speaks to the API server; this package has the block of the job file, the market,
// doctor's checks and what a pod knows about itself.
package kube
