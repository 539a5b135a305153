// Package kubelet is a small node of a Kubernetes cluster: it binds the pods that fit it, and runs each as a process of this host, as a
// container of one image, or as nothing at all. It speaks to a real API server, so that the rest of the cluster is real. It knows nothing
// about the pods' creators.
//
// Missing from a real kubelet and scheduler: registries, networks and limits of containers, probes, volumes except Secrets, empty folders
// and claims, init containers, restarts, and the fairness of a scheduler.
package kubelet
