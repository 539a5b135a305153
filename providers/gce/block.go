package gce

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/pattern"
)

// Name is the provider's word in job files and pools.
const Name = "gce"

// Block is what a job needs to know about an installation on Compute Engine. The names are those of the Terraform
// module's output settings.
type Block struct {
	config.Installation
	// Project is the id of the project that has the machines and pays for them. Required.
	Project string `yaml:"project"`
	// Labels are put on every machine and its disk. Default none.
	Labels map[string]string `yaml:"labels"`
	// Image is the image that machines boot from, a Linux with bash and curl. Default the newest Debian 12.
	Image string `yaml:"image"`
	// GPUImage is the image for jobs that request GPUs. Default the newest Deep Learning VM image with CUDA 12.9 and driver 580.
	GPUImage string `yaml:"gpu_image"`
	// Network of the machines, unless `subnetwork` names it. Default `default`.
	Network string `yaml:"network"`
	// Subnetwork in which machines reach each other and the controller on ports from 1024 up. Default the network's own.
	Subnetwork string `yaml:"subnetwork"`
	// NetworkTags are matched by firewall rules. Default none.
	NetworkTags []string `yaml:"network_tags"`
	// ExternalIP gives machines public addresses. Without them, the subnetwork needs Private Google Access. Default false.
	ExternalIP bool `yaml:"external_ip"`
	// ServiceAccount is the account with which machines read `program` and, without `store_tokens`, use splits and checkpoints. Default
	// none.
	ServiceAccount string `yaml:"service_account"`
	// StoreTokens gives each run's machines tokens of the job server's account for its own splits, checkpoints and state only.
	// Default false: they use their own account.
	StoreTokens bool `yaml:"store_tokens"`
	// Prices are Spot prices, like `local.prices`. Default Compute Engine's, or its price list.
	Prices string `yaml:"prices" job:"env,path"`
	// DiskType is the disk's type. Default `pd-balanced`.
	DiskType string `yaml:"disk_type"`
	// SecureBoot lets machines run only signed kernels and drivers. Default true; false for jobs that request GPUs.
	SecureBoot bool `yaml:"secure_boot" job:"zero"`
	// ExtraNotice is the warning time beyond 30 seconds for Spot machines, in wall-clock time. Default none.
	ExtraNotice time.Duration `yaml:"extra_notice"`
}

// Shared returns the fields that all blocks share: cluster names are unique within a project.
func (b *Block) Shared() *config.Installation {
	b.Installation.Project = b.Project
	return &b.Installation
}

const debian = "projects/debian-cloud/global/images/family/debian-12"

// deepLearning is Google's own image with drivers for GPUs.
const deepLearning = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"

// image returns the image that the job's machines boot from.
func image(job *config.Job) string {
	if job.WantsGPUs() {
		return blockOf(job).GPUImage
	}
	return blockOf(job).Image
}

// Terms describe Compute Engine's part of job files.
var Terms = config.Provider{
	Name: Name, Title: "Compute Engine",
	Mistaken:    map[string]string{"gcp": "Google's cloud is called gce here", "google": "Google's cloud is called gce here"},
	New:         func() config.Block { return &Block{} },
	SharesHosts: true, Store: "gs", Rules: "gce-spot", Notice: 30 * time.Second,
	Region: "us-central1", ControllerType: "e2-small",
	Examples: map[string]string{
		"region": "region: us-central1", "project": "project: my-project-123", "labels": "labels: {team: research}", "image": "image: " + debian, "gpu_image": "gpu_image: " + deepLearning,
		"network": "network: tierml", "subnetwork": "subnetwork: tierml", "network_tags": "network_tags: [tierml-machine]",
		"external_ip": "external_ip: true", "service_account": "service_account: machines@my-project-123.iam.gserviceaccount.com",
		"prices": "prices: gce-prices.csv", "disk_type": "disk_type: pd-balanced", "secure_boot": "secure_boot: false", "extra_notice": "extra_notice: 2m",
		"endpoint": "endpoint: https://compute.googleapis.com", "program": "program: {url: gs://BUCKET/tierml, sha256: 7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730}",
		"controller.zone": "zone: us-central1-a", "controller.url": "url: https://tierml.example.com",
		"controller.network": "network: [tierml-controller]", "controller.type": "type: e2-small", "controller.disk": "disk: 30GB",
	},
	Play: &config.Play{Rules: "gce-spot", Notice: 30 * time.Second, OwnRules: []string{"gce-spot", "gce-preemptible"}},
}

// longestNotice is the longest notice that may be requested.
const longestNotice = 2 * time.Minute

// label is a label's value, or a name of a project, type or tag.
var label = pattern.Of(`^[a-z0-9_-]{1,63}$`)

// Check checks what is specific to Compute Engine.
func (b *Block) Check(c *config.Checker) {
	config.Default(c, "image", &b.Image, debian)
	config.Default(c, "disk_type", &b.DiskType, "pd-balanced")
	config.Default(c, "gpu_image", &b.GPUImage, deepLearning)
	config.Default(c, "secure_boot", &b.SecureBoot, !c.Job.WantsGPUs())
	c.Required("project", b.Project)
	c.File("prices", &b.Prices)
	b.checkLabels(c)
	if b.ExtraNotice < 0 || b.ExtraNotice > longestNotice || b.ExtraNotice%time.Second != 0 {
		c.Fault("extra_notice", b.ExtraNotice.String()+" is no warning that Compute Engine gives", "write whole seconds up to "+config.Duration(longestNotice))
	}
	c.Job.Local.Notice += b.ExtraNotice
	c.Job.Local.Rules += b.feesOf().String()
	checkGPUs(c)
	if c.Job.Image != "" && image(c.Job) == debian {
		c.Fault("image", "is "+debian+", which has neither Docker nor Podman; the job's programs run in containers of "+c.Job.Image,
			"write a system that has one, or remove the job's image")
	}
}

// forN1 are GPU models that Compute Engine attaches to N1 machines: no type includes them (its documentation, "GPU
// machine types").
var forN1 = []string{"K80", "T4", "V100"}

// checkGPUs refuses a job that accepts only such models.
func checkGPUs(c *config.Checker) {
	wanted := slices.Clone(c.Job.Resources.GPU)
	for _, m := range c.Job.Resources.AnyOf {
		wanted = append(wanted, m.GPU)
	}
	if len(wanted) == 0 || slices.ContainsFunc(wanted, func(g config.GPU) bool { return !slices.Contains(forN1, g.Model) }) {
		return
	}
	c.FaultOfGPUs(wanted[0].Model+" is attached to N1 machines on Compute Engine, and TierML buys types that have GPUs of their own",
		"write one that they have: L4, A100, H100, H200, B200 or RTX-PRO-6000; or cloud: ec2")
}

// checkLabels checks values that become a label or part of a name.
func (b *Block) checkLabels(c *config.Checker) {
	if b.Owner != "" && !label().MatchString(b.Owner) {
		c.Fault("owner", fmt.Sprintf("%q cannot be a label", b.Owner), "write small letters, digits, dashes and underscores")
	}
	for name, value := range b.Labels {
		switch {
		case !label().MatchString(name) || name[0] < 'a' || name[0] > 'z' || value != "" && !label().MatchString(value):
			c.Fault("labels", fmt.Sprintf("%q: %q cannot be a label", name, value), "write small letters, digits, dashes and underscores, a letter first")
		case strings.HasPrefix(name, "tierml-"):
			c.Fault("labels", fmt.Sprintf("%q is one of TierML's own", name), "choose another name")
		}
	}
}

// GivesKeys reports whether runs have credentials of their own.
func (b *Block) GivesKeys() bool { return b.StoreTokens }

// of returns the block of a job with cloud: gce.
func blockOf(job *config.Job) *Block { return job.Block.(*Block) }
