// Package kubelet is a node of a Kubernetes cluster without containers: it binds the pods that fit its node, and runs each as a
// process of this host, or as nothing at all. It speaks to a real API server, so that the rest of the cluster is the real one. It
// refuses to know who makes pods and why.
//
// What it leaves out of a real kubelet and scheduler: images, probes, volumes but Secrets, init containers, restarts, and the
// fairness of a scheduler.
package kubelet
