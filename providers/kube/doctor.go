package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
)

// doctorAPI is what the doctor needs from a cluster.
type doctorAPI interface {
	marketAPI
	Version(context.Context) (string, error)
	Missing(ctx context.Context, rights []api.Right) ([]api.Right, error)
	Try(context.Context, market.Pool) error
	Holdings(context.Context) ([]provisioner.Holding, error)
}

const roleAdvice = "bind the role of deploy/kubernetes to the account that runs the job server"

// checks returns the checks of a job with cloud: kubernetes.
func checks(job *config.Job, connect func() (doctorAPI, error)) []doctor.Check {
	var cluster doctorAPI
	b := blockOf(job)
	with := func(name string, look func(context.Context) (string, error)) doctor.Check {
		return doctor.Check{Name: name, Needs: "credentials", Look: look}
	}
	admission := func(look func(context.Context) (string, error)) doctor.Check {
		return doctor.Check{Name: "admission", Needs: "nodes", Look: look}
	}
	return []doctor.Check{
		{Name: "credentials", Look: func(ctx context.Context) (found string, err error) {
			if cluster, err = connect(); err != nil {
				return "", doctor.Denied(err, "write kubernetes.kubeconfig, or set KUBECONFIG; does `kubectl get pods` work?")
			}
			version, err := cluster.Version(ctx)
			if err != nil {
				return "", doctor.Denied(err, "log in to the cluster; does `kubectl get pods` work?")
			}
			return "the API server answers, " + version, nil
		}},
		with("permissions", func(ctx context.Context) (string, error) {
			missing, err := cluster.Missing(ctx, api.Rights)
			if err != nil {
				return "", doctor.Denied(err, roleAdvice)
			}
			if len(missing) > 0 {
				return "", doctor.Wrong(roleAdvice, "not allowed in namespace %s: %s", b.Namespace, words(missing))
			}
			return fmt.Sprintf("all %d are granted in namespace %s", len(api.Rights), b.Namespace), nil
		}),
		with("nodes", func(ctx context.Context) (string, error) {
			missing, err := cluster.Missing(ctx, api.NodeRights)
			if err != nil {
				return "", doctor.Denied(err, roleAdvice)
			}
			if len(missing) > 0 && complete(job) {
				return "", doctor.Warn("bind the cluster role of deploy/kubernetes; without it pods are warned when they are deleted, not when their node is tainted",
					"not allowed: %s", words(missing))
			}
			if slices.Contains(missing, api.NodeRights[0]) {
				return "", doctor.Wrong("write "+openFields(job)+" below kubernetes:, or "+roleAdvice, "not allowed: %s; only nodes' labels have %s", words(missing), openFields(job))
			}
			nodes, err := cluster.Nodes(ctx)
			if err != nil {
				return "", doctor.Denied(err, roleAdvice)
			}
			if err := find(job, nodes); err != nil {
				return "", err
			}
			if cluster, err = connect(); err != nil { // to the cluster that has just been found
				return "", err
			}
			return checkNodes(b, nodes)
		}),
		admission(func(ctx context.Context) (string, error) {
			kind := api.AnyType
			if len(job.Resources.AnyOf) > 0 && job.Resources.AnyOf[0].Type != "" {
				kind = job.Resources.AnyOf[0].Type
			}
			zone := api.AnyZone
			if len(job.Resources.Zones) > 0 {
				zone = job.Resources.Zones[0]
			}
			pool := market.Pool{Provider: Name, Region: b.Region, Zone: zone, Type: kind, Class: market.Spot}
			if err := cluster.Try(ctx, pool); err != nil {
				return "", doctor.Denied(err, roleAdvice)
			}
			return "the cluster admits such a pod (dry run)", nil
		}),
		with("machines", func(ctx context.Context) (string, error) {
			live, err := cluster.Holdings(ctx)
			if err != nil {
				return "", doctor.Denied(err, roleAdvice)
			}
			return fmt.Sprintf("%d pods of the cluster are there: see tierml leaks", len(live)), nil
		}),
	}
}

func words(rights []api.Right) string {
	texts := make([]string, len(rights))
	for i, r := range rights {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

// extras formats extended resources as ", 1 nvidia.com/gpu".
func extras(resources map[string]int) (text string) {
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		text += fmt.Sprintf(", %d %s", resources[name], name)
	}
	return text
}

// checkNodes checks whether an existing node could take a pod. An autoscaler may add others.
func checkNodes(b *Block, nodes []api.Node) (string, error) {
	if len(nodes) == 0 {
		return "", doctor.Warn("nothing, when the autoscaler makes nodes as pods wait", "the cluster has no nodes now")
	}
	if !slices.ContainsFunc(nodes, func(n api.Node) bool { return n.VCPU >= b.CPU && n.MemoryMiB >= b.Memory.MiB && n.Has(b.Resources) }) {
		return "", doctor.Warn("want smaller pods, unless the autoscaler makes larger nodes", "none of the %d nodes can take a pod of %d vCPUs and %s%s", len(nodes), b.CPU, b.Memory, extras(b.Resources))
	}
	return fmt.Sprintf("%d, some of which can take such a pod", len(nodes)), nil
}
