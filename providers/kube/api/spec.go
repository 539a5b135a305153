package api

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tierml/tierml/internal/cloudname"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Nodes is the way in which a cluster labels nodes with the terms on which they are sold.
type Nodes string

// The kinds of clusters.
const (
	// Karpenter: https://karpenter.sh/docs/concepts/scheduling/
	Karpenter Nodes = "karpenter"
	// GKE: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
	GKE Nodes = "gke"
	// EKS: managed node groups, https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
	EKS Nodes = "eks"
	// Plain clusters sell on one term: pods go wherever there is room, in the zones and on the types that a pool names.
	Plain Nodes = "plain"
)

// allNodes are all kinds. If a cluster's nodes match several, the first applies.
var allNodes = []Nodes{Karpenter, GKE, EKS, Plain}

// AllNodes returns the names of the kinds.
func AllNodes() (words []string) {
	for _, kind := range allNodes {
		words = append(words, string(kind))
	}
	return words
}

// tierLabels are, by the kind of cluster, the label and its values on spot and on-demand nodes; an empty value = nodes lack the label.
var tierLabels = map[Nodes]struct{ key, spot, onDemand string }{
	Karpenter: {"karpenter.sh/capacity-type", "spot", "on-demand"},
	GKE:       {"cloud.google.com/gke-spot", "true", ""},
	EKS:       {"eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"},
}

// Paths in a pod.
const (
	// ProgramPath is this program in an image of `make image`.
	ProgramPath = "/tierml"
	secretPath  = "/run/tierml"
	homePath    = "/var/lib/tierml"
	// UserDataKey is the file of a pod's user data, in EnvSecret's folder.
	UserDataKey = "user-data"
)

// Environment of a pod, for providers/kube's metadata.
const (
	EnvPod    = "TIERML_POD"        // its name
	EnvType   = "TIERML_POD_TYPE"   // its pool's type
	EnvSecret = "TIERML_POD_SECRET" // folder of its user data
	EnvNotice = "TIERML_POD_NOTICE" // the time from SIGTERM to the end, wall-clock
	// EnvListen is set in the job server's pod: the name by which pods find it, with port 0. The chart sets it.
	EnvListen = "TIERML_LISTEN"
)

// user is an arbitrary id: images need not define it.
const user = 65532

func (c *Cloud) pod(r provisioner.Request, launch string, number int, owner metav1.OwnerReference) (*corev1.Pod, error) {
	p := &corev1.Pod{ObjectMeta: c.meta(r, podName(launch, number), owner)}
	if !r.Expires.IsZero() {
		p.Annotations[noteExpires] = r.Expires.UTC().Format(time.RFC3339)
	}
	if r.Generation != "" {
		p.Annotations[noteGeneration] = r.Generation
	}
	if r.Pool.Class == market.OnDemand { // they hold the solution: no autoscaler may move them to save money
		p.Annotations["karpenter.sh/do-not-disrupt"] = "true"
		p.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
		p.Spec.PriorityClassName = c.config.PriorityClass
		p.Spec.TopologySpreadConstraints = c.spread()
	}
	if c.config.Queue != "" {
		p.Labels[labelQueue] = c.config.Queue
		if c.config.Gang {
			join(p, place{launch, r.Count})
			p.Annotations[noteRetriable] = "false"
		}
	}
	if !c.config.Expires.IsZero() {
		left := max(int64(time.Until(c.config.Expires)/time.Second), 60)
		p.Spec.ActiveDeadlineSeconds = &left
	}
	grace := int64(c.config.Notice / time.Second)
	no, yes, id := false, true, int64(user)
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gateLaunch}}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever // a pod that restarts has lost its state
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.AutomountServiceAccountToken, p.Spec.EnableServiceLinks = &no, &no
	p.Spec.ServiceAccountName = c.config.ServiceAccount
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: c.affinity(r.Pool)}
	p.Spec.Tolerations = c.tolerations(r.Pool.Class)
	p.Spec.Volumes = []corev1.Volume{
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: launch}}},
		{Name: "home", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	want := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(c.config.CPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(c.config.MemoryMiB<<20, resource.BinarySI),
	}
	if c.config.DiskMiB > 0 {
		want[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(c.config.DiskMiB<<20, resource.BinarySI)
	}
	for name, n := range c.config.Extended {
		want[corev1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	value := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	p.Spec.Containers = []corev1.Container{{
		Name: container, Image: c.config.Image, Command: []string{ProgramPath, "agent"}, WorkingDir: homePath,
		// The request is also the limit: a node under pressure evicts such pods last.
		Resources: corev1.ResourceRequirements{Requests: want, Limits: want},
		Env: []corev1.EnvVar{
			value("TIERML_PROVIDER", Provider), value(EnvType, r.Pool.Type), value(EnvSecret, secretPath), value(EnvNotice, c.config.Notice.String()),
			value("TIERML_KEY_FILE", homePath+"/agent.key"), value("HOME", homePath), value("TMPDIR", homePath),
			{Name: EnvPod, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "secret", MountPath: secretPath, ReadOnly: true}, {Name: "home", MountPath: homePath}},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
	}}
	p, err := patched(p, c.config.Patch)
	if err == nil && c.config.Gang {
		p.Annotations[noteShape] = shape(p)
	}
	return p, err
}

// meta returns the metadata that a launch's objects share.
func (c *Cloud) meta(r provisioner.Request, name string, owner metav1.OwnerReference) metav1.ObjectMeta {
	m := c.ownerMeta(name)
	m.Labels[labelToken], m.Labels[labelClass] = cloudname.Digest(12, r.Token), string(r.Pool.Class)
	m.Annotations[noteRequest] = noteOf(r).text()
	m.OwnerReferences = []metav1.OwnerReference{owner}
	return m
}

// ownerMeta returns the metadata that all objects of a run share.
func (c *Cloud) ownerMeta(name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Namespace: c.config.Namespace,
		Labels:      map[string]string{labelPart: "tierml", labelCluster: labelValue(c.config.Cluster), labelRun: labelValue(c.config.Job)},
		Annotations: map[string]string{noteRun: c.config.Job}}
	if c.config.Owner != "" {
		m.Annotations[noteOwner] = c.config.Owner
	}
	return m
}

// AnyZone and AnyType are a pool's zone and type if a plain cluster's nodes have no labels.
const (
	AnyZone = "any"
	AnyType = "pod"
)

// affinity restricts a pod to its pool's nodes.
func (c *Cloud) affinity(p market.Pool) *corev1.NodeAffinity {
	var all []corev1.NodeSelectorRequirement
	in := func(key, value string) {
		all = append(all, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	if p.Zone != AnyZone {
		in(corev1.LabelTopologyZone, p.Zone)
	}
	if p.Type != AnyType {
		in(corev1.LabelInstanceTypeStable, p.Type)
	}
	if tier, told := tierLabels[c.config.Nodes]; told {
		value := tier.onDemand
		if p.Class == market.Spot {
			value = tier.spot
		}
		if value == "" {
			all = append(all, corev1.NodeSelectorRequirement{Key: tier.key, Operator: corev1.NodeSelectorOpDoesNotExist})
		} else {
			in(tier.key, value)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: all}}}}
}

// lostNode is how long pods stay bound to a node that does not answer, in seconds. Kubernetes would wait five minutes;
// agents' heartbeats usually notice earlier, and otherwise training would stall.
const lostNode = int64(30)

func (c *Cloud) tolerations(class market.Class) []corev1.Toleration {
	seconds := lostNode
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	if tier, told := tierLabels[c.config.Nodes]; told && class == market.Spot { // pools of spot nodes often have a taint equal to their label
		all = append(all, corev1.Toleration{Key: tier.key, Operator: corev1.TolerationOpEqual, Value: tier.spot, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.Extended)) { // nodes with GPUs often have a taint named after the resource
		all = append(all, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return all
}

func (c *Cloud) validate(r provisioner.Request) error {
	if err := r.Validate(c.Traits()); err != nil {
		return err
	}
	switch {
	case r.Pool.Region != c.config.Region:
		return fmt.Errorf("%w: this cloud is region %s", provisioner.ErrInvalid, c.config.Region)
	case c.config.Image == "" || c.config.CPU < 1 || c.config.MemoryMiB < 1 || c.config.Job == "":
		return fmt.Errorf("%w: launches need an image, vCPUs, memory and the run's name", provisioner.ErrInvalid)
	}
	return nil
}
