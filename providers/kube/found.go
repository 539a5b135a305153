package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
)

// complete reports whether the job already specifies everything that nodes' labels could.
func complete(job *config.Job) bool { return blockOf(job).Nodes != "" && blockOf(job).Region != "" }

// untold returns the error when nodes cannot be listed and the job leaves open what only they can tell.
func untold(job *config.Job, err error) error {
	fields := openFields(job)
	if !errors.Is(err, provisioner.ErrDenied) {
		return fmt.Errorf("finding %s: %w", fields, err)
	}
	return job.Fault(Name, fields+" cannot be found by the nodes' labels: "+providers.FirstLine(err), "write "+fields+" below kubernetes:, or "+roleAdvice)
}

// openFields names the fields that the job leaves open, for errors and the doctor.
func openFields(job *config.Job) string {
	switch b := blockOf(job); {
	case b.Nodes != "":
		return "region"
	case b.Region != "":
		return "nodes"
	}
	return "nodes and region"
}

// find sets the fields that a job leaves open from the labels of the cluster's nodes.
func find(job *config.Job, nodes []api.Node) error {
	if complete(job) {
		return nil
	}
	b := blockOf(job)
	if len(nodes) == 0 {
		return job.Fault(Name, openFields(job)+" cannot be found: the cluster has no nodes now", "write "+openFields(job)+" below kubernetes:")
	}
	if b.Nodes == "" {
		b.Nodes = string(api.KindOf(nodes))
		job.Assume(Name+".nodes", Name+".nodes: "+b.Nodes+", by the nodes' labels")
	}
	if b.Region != "" {
		return nil
	}
	var regions []string
	for _, n := range nodes {
		if n.Region != "" && !slices.Contains(regions, n.Region) {
			regions = append(regions, n.Region)
		}
	}
	slices.Sort(regions)
	switch {
	case len(regions) > 1:
		return job.Fault(Name+".region", "the cluster has nodes in "+strings.Join(regions, ", "), "write one of these regions below kubernetes:")
	case len(regions) == 1:
		b.Region = regions[0]
		job.Assume(Name+".region", Name+".region: "+b.Region+", by the nodes' labels")
	default:
		b.Region = api.AnyZone
		job.Assume(Name+".region", Name+".region: "+b.Region+", as no node's label names one")
	}
	return nil
}
