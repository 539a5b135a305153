// Package api implements provisioner.Cloud on a Kubernetes cluster: machines are bare pods, which the cluster's
// scheduler places and its autoscaler finds nodes for. It knows nothing about prices, plans and training.
//
// A run has these objects in its namespace:
//
//	ConfigMap  one per run, the owner of everything else: deleting it deletes the run
//	Secret     one per launch: its user data, and in an annotation the request, written before the first pod
//	Pod        the machines of a launch, named by a digest of its token and a number
//
// Names derive from the token alone, so that a repeated launch finds its own pods and makes no others.
package api
