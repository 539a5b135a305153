package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Node is what a plan needs to know about a node.
type Node struct {
	Zone, Type, Arch string // AnyZone and AnyType if labels are missing
	Region           string // empty = no label
	Kind             Nodes  // by its labels; Plain if none matches
	VCPU             int    // whole vCPUs available to pods
	MemoryMiB        int64
	Extended         map[string]int64 // resources such as nvidia.com/gpu
	GPU              string           // the model in the node's labels
	GPUMemoryMiB     int64            // per GPU
}

// Has reports whether pods that request such extended resources fit on the node.
func (n Node) Has(extended map[string]int) bool {
	for name, want := range extended { // any order: all must be present
		if n.Extended[name] < int64(want) {
			return false
		}
	}
	return true
}

// Labels with the model of a node's GPUs: from NVIDIA's GPU feature discovery, GKE and Karpenter.
var modelLabels = []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"}

// kindLabels are labels that every node of a kind of cluster has.
var kindLabels = map[Nodes][]string{
	Karpenter: {"karpenter.sh/capacity-type", "karpenter.sh/nodepool"},
	GKE:       {"cloud.google.com/gke-nodepool", "cloud.google.com/gke-spot"},
	EKS:       {"eks.amazonaws.com/nodegroup", "eks.amazonaws.com/capacityType"},
}

func kindByLabels(labels map[string]string) Nodes {
	for _, kind := range allNodes {
		for _, label := range kindLabels[kind] {
			if _, has := labels[label]; has {
				return kind
			}
		}
	}
	return Plain
}

// KindOf returns how a cluster labels its nodes. In clusters with Karpenter, the other nodes are those that Karpenter
// itself runs on.
func KindOf(nodes []Node) Nodes {
	for _, kind := range allNodes {
		if slices.ContainsFunc(nodes, func(n Node) bool { return n.Kind == kind }) {
			return kind
		}
	}
	return Plain
}

// Nodes lists the cluster's nodes.
func (c *Cloud) Nodes(ctx context.Context) ([]Node, error) {
	list, err := c.config.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, failure(ctx, "listing nodes", err)
	}
	nodes := make([]Node, len(list.Items))
	for i, n := range list.Items {
		nodes[i] = Node{Zone: n.Labels[corev1.LabelTopologyZone], Type: n.Labels[corev1.LabelInstanceTypeStable], Arch: market.ArchX86,
			VCPU: int(n.Status.Allocatable.Cpu().MilliValue() / 1000), MemoryMiB: n.Status.Allocatable.Memory().Value() >> 20}
		if n.Labels[corev1.LabelArchStable] == "arm64" {
			nodes[i].Arch = market.ArchARM
		}
		for _, label := range modelLabels {
			nodes[i].GPU = cmp.Or(nodes[i].GPU, n.Labels[label])
		}
		nodes[i].GPUMemoryMiB, _ = strconv.ParseInt(cmp.Or(n.Labels["nvidia.com/gpu.memory"], n.Labels["karpenter.k8s.aws/instance-gpu-memory"]), 10, 64) // 0 = unknown
		nodes[i].Extended = map[string]int64{}
		for name, quantity := range n.Status.Allocatable {
			if strings.Contains(string(name), "/") {
				nodes[i].Extended[string(name)] = quantity.Value()
			}
		}
		nodes[i].Region, nodes[i].Kind = n.Labels[corev1.LabelTopologyRegion], kindByLabels(n.Labels)
		if nodes[i].Zone == "" {
			nodes[i].Zone = AnyZone
		}
		if nodes[i].Type == "" {
			nodes[i].Type = AnyType
		}
	}
	return nodes, nil
}

// Try has the API server check a pod of a pool without making it.
func (c *Cloud) Try(ctx context.Context, p market.Pool) error {
	r := provisioner.Request{Token: "try", Pool: p, Count: 1}
	doing := "trying a pod of " + p.String()
	trial := &Cloud{config: c.config}
	trial.config.Job = "try"
	if err := trial.validate(r); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	pod, err := trial.pod(r, launchName(c.config.Cluster, trial.config.Job, time.Now().String()), 0, metav1.OwnerReference{})
	if err != nil {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	pod.OwnerReferences = nil
	if _, err := c.config.Client.Pods(c.config.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		return failure(ctx, doing, err)
	}
	return nil
}

// Right is a verb on a resource.
type Right struct{ Verb, Resource string }

// String returns the right in words: "create pods/eviction".
func (r Right) String() string { return r.Verb + " " + r.Resource }

func rights(resource string, verbs ...string) (all []Right) {
	for _, v := range verbs {
		all = append(all, Right{v, resource})
	}
	return all
}

// Rights are what a job server needs in its namespace, each used by a method of Cloud; the chart grants them.
var Rights = concat(
	rights("configmaps", "create", "delete", "get", "list"),
	rights("secrets", "create", "get", "patch"),
	rights("pods", "create", "delete", "list", "patch", "watch"),
	rights("pods/eviction", "create"),
	rights("poddisruptionbudgets", "create"),
)

// EventRights are needed to leave events.
var EventRights = rights("events", "create")

// NodeRights are optional rights in the whole cluster.
var NodeRights = rights("nodes", "list", "watch")

func concat(lists ...[]Right) (all []Right) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// Missing returns the rights that this account lacks, according to the API server (SelfSubjectAccessReview).
func (c *Cloud) Missing(ctx context.Context, wanted []Right) (missing []Right, err error) {
	for _, r := range wanted {
		resource, sub, _ := strings.Cut(r.Resource, "/")
		namespace := c.config.Namespace
		group := ""
		switch resource {
		case "nodes":
			namespace = ""
		case "poddisruptionbudgets":
			group = "policy"
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: group, Verb: r.Verb, Resource: resource, Subresource: sub}}}
		answer, err := c.config.Client.Review(ctx, review)
		if err != nil {
			return nil, failure(ctx, "asking what this account may do", err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}
