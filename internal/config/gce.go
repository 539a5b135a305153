package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/blob"
)

// CloudGCE buys machines from Google Compute Engine. The controller must run where they can reach it.
const CloudGCE = "gce"

// GCE is what a job needs to know of an installation on Compute Engine. The names are those of the Terraform module's output
// settings.
type GCE struct {
	// Project is the id of the project that pays. Required.
	Project string `yaml:"project"`
	// Region such as us-central1. Required: it is never guessed.
	Region string `yaml:"region"`
	// Cluster begins the names of machines, by which permissions are given, and is their label `tierml-cluster`, by
	// which they are found. Default `tierml`, shared by all that name none.
	Cluster string `yaml:"cluster"`
	// Owner becomes the label `tierml-owner`: whom to ask about a machine. Default none.
	Owner string `yaml:"owner"`
	// Labels are more of them, of every machine and its disk. Default none.
	Labels map[string]string `yaml:"labels"`
	// Image is what machines boot from, a Linux with bash and curl. Default the newest Debian 12.
	Image string `yaml:"image"`
	// Network of the machines, where `subnetwork` does not say it. Default `default`.
	Network string `yaml:"network"`
	// Subnetwork of the machines, which must reach each other and the controller at any port from 1024. Default the
	// network's own.
	Subnetwork string `yaml:"subnetwork"`
	// NetworkTags are what firewall rules aim at. Default none.
	NetworkTags []string `yaml:"network_tags"`
	// ExternalIP gives machines public addresses. Without, the subnetwork needs Private Google Access. Default false.
	ExternalIP bool `yaml:"external_ip"`
	// ServiceAccount is whom machines act as: they read `program`, splits and checkpoints. Default none.
	ServiceAccount string `yaml:"service_account"`
	// Program is what machines run: this program, for their system. Required.
	Program Program `yaml:"program"`
	// Checkpoints is where splits and checkpoints go. Required without `checkpoint.to`.
	Checkpoints string `yaml:"checkpoints"`
	// Catalog lists the machine types with their on-demand prices, as `local.catalog`. Default Google's price list is
	// asked, once a day.
	Catalog string `yaml:"catalog" job:"env,path"`
	// Prices are Spot prices, as `local.prices`, such as a price store that a price list was imported into; those of a
	// region hold in each of its zones. Default Compute Engine is asked, or where it does not tell, its price list.
	Prices string `yaml:"prices" job:"env,path"`
	// Disk is the size of the boot disk. Default 16GB.
	Disk Memory `yaml:"disk"`
	// DiskType is its type. Default `pd-balanced`.
	DiskType string `yaml:"disk_type"`
	// SecureBoot lets machines run signed kernels and drivers only. Default true.
	SecureBoot bool `yaml:"secure_boot" job:"zero"`
	// ExtraNotice is by how much earlier Spot machines shall be warned of a preemption than 30 seconds before the end,
	// in wall-clock time. Default none.
	ExtraNotice time.Duration `yaml:"extra_notice"`
	// Controller is where `tierml run` puts the job from elsewhere. Default: found by its label.
	Controller Controller `yaml:"controller"`
	// Listen is the address at which machines reach this controller, host:port. Default: this machine's own address, and
	// any port.
	Listen string `yaml:"listen"`
	// Endpoint is another place that speaks Compute Engine's protocol: https, or on this host. Default Compute
	// Engine's own.
	Endpoint string `yaml:"endpoint"`
	// FlopsPerVCPU is what one vCPU is taken to compute in a second, for plans; nobody is held to it. Default 1G.
	FlopsPerVCPU Rate `yaml:"flops_per_vcpu"`
}

// What machines of Compute Engine are taken to need, and the notice that is promised: 30 seconds.
const (
	gceNotice = 30 * time.Second
)

// longestNotice is the longest that may be asked for.
const longestNotice = 2 * time.Minute

// gceName is a label's value, or a name of a project, type or tag.
var gceName = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)

// gce checks what only cloud: gce has, and fills in what a real cloud means for the rest.
func (c *checker) gce() {
	j, g := c.job, &c.job.GCE
	if j.Cloud != CloudGCE {
		if c.written("gce") && j.Cloud != "" && !c.broken("cloud") {
			c.fault("gce", "is for cloud: gce only", "remove it")
		}
		return
	}
	setDefault(&g.Cluster, "tierml", c.written("gce.cluster"))
	setDefault(&g.Image, "projects/debian-cloud/global/images/family/debian-12", c.written("gce.image"))
	setDefault(&g.Disk, Memory{MiB: 16 << 10}, c.written("gce.disk"))
	setDefault(&g.DiskType, "pd-balanced", c.written("gce.disk_type"))
	setDefault(&g.SecureBoot, true, c.written("gce.secure_boot"))
	setDefault(&g.FlopsPerVCPU, 1e9, c.written("gce.flops_per_vcpu"))
	for _, f := range []struct{ name, value, example string }{
		{"project", g.Project, "project: my-project-123"}, {"region", g.Region, "region: us-central1"},
		{"program", g.Program.URL + g.Program.SHA256, "program: {url: gs://BUCKET/tierml, sha256: ...}"},
	} {
		if path := "gce." + f.name; f.value == "" && !c.written(path) {
			c.fault(path, "is missing; cloud: gce needs it", "below gce:, add "+f.example)
		}
	}
	if g.Catalog != "" {
		c.path("gce.catalog", &g.Catalog)
	}
	if g.Prices != "" {
		c.path("gce.prices", &g.Prices)
	}
	c.program("gce.program", g.Program, "gs")
	c.region("gce.region", g.Region, "us-central1")
	c.listen("gce.listen", g.Listen)
	c.controller("gce.controller", &g.Controller, "e2-small")
	c.gceNames(g)
	if g.ExtraNotice < 0 || g.ExtraNotice > longestNotice || g.ExtraNotice%time.Second != 0 {
		c.fault("gce.extra_notice", g.ExtraNotice.String()+" is no warning that Compute Engine gives", "write whole seconds up to "+formatDuration(longestNotice))
	}
	c.place("gce.checkpoints", &g.Checkpoints)
	if j.Checkpoint.To == "" {
		j.Checkpoint.To = g.Checkpoints
	}
	if j.Checkpoint.To == "" || !blob.IsURL(j.Checkpoint.To) && g.Endpoint == "" {
		c.fault("gce.checkpoints", "is missing: machines read their splits and keep checkpoints in a place that all of them reach",
			"below gce:, add checkpoints: gs://BUCKET/PREFIX")
	}
	j.Local = Local{Rules: "gce-spot", Speed: 1, Notice: gceNotice + g.ExtraNotice, Boot: tempo.RemoteBoot, FlopsPerVCPU: g.FlopsPerVCPU}
}

// gceNames checks what becomes a label, or a part of a name.
func (c *checker) gceNames(g *GCE) {
	if g.Owner != "" && !gceName.MatchString(g.Owner) {
		c.fault("gce.owner", fmt.Sprintf("%q cannot be a label", g.Owner), "write small letters, digits, dashes and underscores")
	}
	for name, value := range g.Labels {
		switch {
		case !gceName.MatchString(name) || name[0] < 'a' || name[0] > 'z' || value != "" && !gceName.MatchString(value):
			c.fault("gce.labels", fmt.Sprintf("%q: %q cannot be a label", name, value), "write small letters, digits, dashes and underscores, a letter first")
		case strings.HasPrefix(name, "tierml-"):
			c.fault("gce.labels", fmt.Sprintf("%q is one of TierML's own", name), "choose another name")
		}
	}
}
