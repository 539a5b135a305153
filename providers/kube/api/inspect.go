package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Node is what a plan needs to know of one.
type Node struct {
	Zone, Type, Arch string // AnyZone and AnyType where labels are missing
	VCPU             int    // whole ones that pods can have
	MemoryMiB        int64
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
		if nodes[i].Zone == "" {
			nodes[i].Zone = AnyZone
		}
		if nodes[i].Type == "" {
			nodes[i].Type = AnyType
		}
	}
	return nodes, nil
}

// Try has the API server admit a pod of a pool without making it.
func (c *Cloud) Try(ctx context.Context, p market.Pool) error {
	r := provisioner.Request{Token: "try", Pool: p, Count: 1}
	doing := "trying a pod of " + p.String()
	trial := &Cloud{config: c.config}
	trial.config.Job = "try"
	if err := trial.validate(r); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	pod := trial.pod(r, launchName(c.config.Cluster, trial.config.Job, time.Now().String()), 0, metav1.OwnerReference{})
	pod.OwnerReferences = nil
	if _, err := c.config.Client.Pods(c.config.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		return failure(ctx, doing, err)
	}
	return nil
}

// Right is a verb on a resource.
type Right struct{ Verb, Resource string }

// String returns how people say it: "create pods/eviction".
func (r Right) String() string { return r.Verb + " " + r.Resource }

func rights(resource string, verbs ...string) (all []Right) {
	for _, v := range verbs {
		all = append(all, Right{v, resource})
	}
	return all
}

// Rights are what a job server needs in its namespace, each used by a method of Cloud; the chart gives them.
var Rights = concat(
	rights("configmaps", "create", "delete", "get", "list"),
	rights("secrets", "create", "get", "patch"),
	rights("pods", "create", "delete", "list", "patch", "watch"),
	rights("pods/eviction", "create"),
)

// NodeRights are those in the whole cluster, which a job server can do without.
var NodeRights = rights("nodes", "list", "watch")

func concat(lists ...[]Right) (all []Right) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// Missing asks the API server which rights this account lacks (SelfSubjectAccessReview).
func (c *Cloud) Missing(ctx context.Context, wanted []Right) (missing []Right, err error) {
	for _, r := range wanted {
		resource, sub, _ := strings.Cut(r.Resource, "/")
		namespace := c.config.Namespace
		if resource == "nodes" {
			namespace = ""
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.Verb, Resource: resource, Subresource: sub}}}
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
