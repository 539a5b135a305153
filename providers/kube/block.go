package kube

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/kube/api"
)

// Name is the provider's word in job files and pools.
const Name = api.Provider

const (
	rules = "kubernetes"
	// defaultNotice is what GKE gives pods on spot nodes, and the shortest of the clouds' notices:
	// https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms#termination-graceful-shutdown
	defaultNotice = 15 * time.Second
	longestNotice = 2 * time.Minute
	longestWait   = 7 * 24 * time.Hour
)

// Block is what a job needs to know of a cluster. docs/job.md lists its fields.
type Block struct {
	config.Installation
	// Namespace is the namespace of everything that a run creates. Default `tierml`.
	Namespace string `yaml:"namespace"`
	// Kubeconfig is the file that describes access to the cluster. Default `KUBECONFIG`, `~/.kube/config`, or in a pod its service account.
	Kubeconfig string `yaml:"kubeconfig" job:"env,path"`
	// Context is a context of the kubeconfig. Default its current context.
	Context string `yaml:"context"`
	// Image is the pods' image, which contains the `tierml` binary as `/tierml` (`make image`). Required.
	Image string `yaml:"image"`
	// ServiceAccount is the account with which pods, without `store_role` and `store_tokens`, read splits and checkpoints. Default the
	// namespace's own.
	ServiceAccount string `yaml:"service_account"`
	// StoreRole is like `ec2.store_role`, for `checkpoints` in S3: the job server assumes it for each run. Default `service_account`, for all runs.
	StoreRole string `yaml:"store_role"`
	// StoreTokens is like `gce.store_tokens`, for `checkpoints` in Google's store. Default `false`: `service_account`, for all runs.
	StoreTokens bool `yaml:"store_tokens"`
	// PriorityClass is the priority class of reliable pods. Default none.
	PriorityClass string `yaml:"priority_class"`
	// CPU is the number of vCPUs that a pod requests and may use. Default that of the smallest type that the job names, minus one for the node.
	CPU int `yaml:"cpu"`
	// Memory is the memory that a pod requests and may use. Default three quarters of the memory of the smallest type that the job names.
	Memory config.Memory `yaml:"memory"`
	// Resources are extended resources that a pod requests. Default the GPUs that the job requests, as `nvidia.com/gpu`.
	Resources map[string]int `yaml:"resources"`
	// Pod is merged into each pod: labels, tolerations, node selectors, pull secrets, volumes (docs/kubernetes.md). Default nothing.
	Pod config.Manifest `yaml:"pod"`
	// Nodes says which labels mark spot nodes: those of `karpenter`, `gke`, `eks` (managed node groups), or none with `plain`: all nodes are equal.
	// Default derived from the nodes' labels, like that of `region`.
	Nodes string `yaml:"nodes"`
	// Queue is the Kueue local queue whose quota pods wait for. Default none.
	Queue string `yaml:"queue"`
	// Gang makes Kueue admit the pods of a launch together or not at all, as a pod group. Default `false`.
	Gang bool `yaml:"gang"`
	// Wait is how long a pod may wait for a node or for quota, beyond ten minutes. Default `20m`.
	Wait time.Duration `yaml:"wait" job:"zero"`
	// Notice is a pod's grace period, and the assumed notice when a node ends. Default `15s`.
	Notice time.Duration `yaml:"notice"`
	// Spot is the hourly cost of a pod on spot nodes. Default its share of the node's price in `prices`.
	Spot market.USD `yaml:"spot"`
	// OnDemand is the hourly cost of a pod on other nodes. Default its share of the node's price in `catalog`.
	OnDemand market.USD `yaml:"on_demand"`
	// Prices are nodes' spot prices, like `local.prices`. Default none.
	Prices string `yaml:"prices" job:"env,path"`
	// PricesOf names the cloud of `prices`: `ec2` or `gce`. Default `ec2`.
	PricesOf string `yaml:"prices_of"`
}

// Terms describe Kubernetes' part of job files.
var Terms = config.Provider{
	Name: Name, Title: "Kubernetes",
	Mistaken: map[string]string{"k8s": "a Kubernetes cluster is called kubernetes here", "gke": "a cluster is called kubernetes here, whoever runs it",
		"eks": "a cluster is called kubernetes here, whoever runs it", "kube": "a Kubernetes cluster is called kubernetes here"},
	New:   func() config.Block { return &Block{} },
	Store: "s3", Rules: rules, Notice: defaultNotice, Region: "us-central1", ControllerType: "pod", HasProgram: true, FindsRegion: true, SharesHosts: true, OneUser: true,
	Examples: map[string]string{
		"region": "region: us-central1", "namespace": "namespace: tierml", "kubeconfig": "kubeconfig: cluster.yaml", "context": "context: prod",
		"image": "image: registry.example.com/tierml@sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730", "service_account": "service_account: tierml-pods",
		"store_role":     "store_role: arn:aws:iam::123456789012:role/tierml-store",
		"priority_class": "priority_class: tierml-reliable", "cpu": "cpu: 4", "memory": "memory: 12GB", "nodes": "nodes: karpenter", "queue": "queue: research",
		"resources": "resources: {nvidia.com/gpu: 1}", "pod": "pod: {spec: {imagePullSecrets: [{name: registry}]}}", "gang": "gang: true",
		"wait": "wait: 2h", "notice": "notice: 25s", "spot": "spot: $0.02", "on_demand": "on_demand: $0.08", "prices": "prices: spot.csv.gz", "prices_of": "prices_of: gce",
		"endpoint": "endpoint: https://127.0.0.1:6443", "controller.url": "url: http://127.0.0.1:7077", "controller.type": "type: pod", "controller.network": "network: [default]",
	},
}

var objectName = pattern.Of(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check checks what is specific to Kubernetes.
func (b *Block) Check(c *config.Checker) {
	config.Default(c, "namespace", &b.Namespace, "tierml")
	config.Default(c, "wait", &b.Wait, 20*time.Minute)
	config.Default(c, "notice", &b.Notice, defaultNotice)
	config.Default(c, "prices_of", &b.PricesOf, "ec2")
	b.Listen = cmp.Or(b.Listen, os.Getenv(api.EnvListen))
	c.Required("image", b.Image)
	c.File("kubeconfig", &b.Kubeconfig)
	c.File("prices", &b.Prices)
	for _, f := range []struct{ field, value string }{{"namespace", b.Namespace}, {"service_account", b.ServiceAccount}, {"priority_class", b.PriorityClass}, {"queue", b.Queue}} {
		if f.value != "" && !objectName().MatchString(f.value) {
			c.Fault(f.field, `"`+f.value+`" is not the name of an object`, "write small letters, digits and dashes, at most 63")
		}
	}
	b.size(c)
	if b.CPU < 1 || b.CPU > 1024 {
		c.Fault("cpu", "is no number of vCPUs for a pod", "write how many vCPUs a pod gets, such as cpu: 4")
	}
	if b.Memory.MiB < 128 || b.Memory.OrMore {
		c.Fault("memory", "is no memory for a pod", "write how much memory a pod gets, such as memory: 12GB")
	}
	b.checkResources(c)
	if problem := api.CheckPatch(b.Pod); problem != "" {
		c.Fault("pod", problem, "write labels, tolerations, volumes and the like; docs/kubernetes.md lists them")
	}
	if b.Gang && b.Queue == "" {
		c.Fault("gang", "is for pods that wait in a queue", "add queue, or remove gang")
	}
	if b.Nodes != "" || c.Written("nodes") {
		c.OneOf("nodes", b.Nodes, api.AllNodes()...)
	}
	c.OneOf("prices_of", b.PricesOf, "ec2", "gce")
	if b.Notice < time.Second || b.Notice > longestNotice || b.Notice%time.Second != 0 {
		c.Fault("notice", b.Notice.String()+" is no grace for a pod", "write whole seconds from 1s to "+config.Duration(longestNotice))
	}
	if b.Wait < 0 || b.Wait > longestWait {
		c.Fault("wait", b.Wait.String()+" is no time to wait", "write a time up to "+config.Duration(longestWait))
	}
	if b.Spot < 0 || b.OnDemand < 0 {
		c.Fault("spot", "prices are not below zero", "write such as spot: $0.02")
	}
	b.Installation.Wait = b.Wait
	c.Job.Local.Notice = b.Notice
}

// MachineSize returns what each pod of the job has; on shared hosts each slot.
func (b *Block) MachineSize() market.InstanceType {
	return market.InstanceType{VCPU: b.CPU, MemoryMiB: b.Memory.MiB, GPU: market.GPU{Count: b.Resources[gpus]}}
}

// gpus is the extended resource of NVIDIA's device plugin.
const gpus = "nvidia.com/gpu"

var extended = pattern.Of(`^[a-z0-9][a-z0-9.-]*/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// size sets a pod's vCPUs and memory from the smallest type that the job names, if all are known without calling a
// cloud. The rest is left to the node: the kubelet's reserve and its daemons.
func (b *Block) size(c *config.Checker) {
	var least market.InstanceType
	for _, name := range append(providers.NamedTypes(c.Job), c.Job.Reliable.Type) {
		t, _ := shapes.Complete(market.InstanceType{Name: name})
		switch {
		case name == "":
			continue
		case t.VCPU == 0 || t.MemoryMiB == 0:
			return
		case least.VCPU == 0:
			least = t
		}
		least.VCPU, least.MemoryMiB = min(least.VCPU, t.VCPU), min(least.MemoryMiB, t.MemoryMiB)
	}
	if least.VCPU > 0 {
		config.Default(c, "cpu", &b.CPU, max(1, least.VCPU-1))
		config.Default(c, "memory", &b.Memory, config.Memory{MiB: least.MemoryMiB * 3 / 4})
	}
}

// checkResources rejects invalid names of extended resources, and GPUs that contradict the job's own.
func (b *Block) checkResources(c *config.Checker) {
	asked := slices.Clone(c.Job.Resources.GPU)
	for _, m := range c.Job.Resources.AnyOf {
		if m.GPU.Count > 0 {
			asked = append(asked, m.GPU)
		}
	}
	if _, written := b.Resources[gpus]; len(asked) > 0 && !written {
		b.Resources = maps.Clone(b.Resources)
		if b.Resources == nil {
			b.Resources = map[string]int{}
		}
		b.Resources[gpus] = asked[0].Count
	}
	for _, g := range asked {
		if n := b.Resources[gpus]; n < g.Count || n > g.Count && !g.OrMore {
			c.Fault("resources", fmt.Sprintf("give a pod %d GPUs, and the job asks for %s", n, g), "all pods of a job have as many; write the same number")
		}
	}
	for name, n := range b.Resources { // any order: each is checked alone
		if n < 1 || !extended().MatchString(name) || strings.Contains(name, "kubernetes.io/") {
			c.Fault("resources", fmt.Sprintf("%s: %d is no extended resource", name, n), "write such as "+gpus+": 1; cpu, memory and disk are fields of their own")
		}
	}
}

// of returns the block of a job with cloud: kubernetes.
func blockOf(job *config.Job) *Block { return job.Block.(*Block) }
