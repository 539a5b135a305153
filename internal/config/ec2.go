package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/blob"
)

// CloudEC2 buys machines from Amazon EC2. The controller must run where they can reach it.
const CloudEC2 = "ec2"

// EC2 is what a job needs to know of an installation on EC2. The names are those of the Terraform module's output settings.
type EC2 struct {
	// Region such as us-west-2. Required: it is never guessed.
	Region string `yaml:"region"`
	// Cluster is the value of the tag `tierml:cluster`, by which permissions are given and machines found. Default
	// `tierml`, shared by all that name none.
	Cluster string `yaml:"cluster"`
	// Owner becomes the tag `tierml:owner`: whom to ask about a machine. Default none.
	Owner string `yaml:"owner"`
	// Image is the machine image (AMI), a Linux with bash, curl and, for a program in S3, the AWS command line, such
	// as Amazon Linux 2023. Required.
	Image string `yaml:"image"`
	// Subnets gives the subnet in each zone. Default each zone's default subnet.
	Subnets map[string]string `yaml:"subnets"`
	// SecurityGroups are those of the machines, which must reach each other and the controller at any port from 1024.
	// Default the default group.
	SecurityGroups []string `yaml:"security_groups"`
	// InstanceProfile is the role of the machines: they read `program`, splits and checkpoints. Default none.
	InstanceProfile string `yaml:"instance_profile"`
	// Program is what machines run: this program, for their system. Required.
	Program Program `yaml:"program"`
	// Checkpoints is where splits and checkpoints go. Required without `checkpoint.to`.
	Checkpoints string `yaml:"checkpoints"`
	// Catalog lists the machine types with their on-demand prices, as `local.catalog`. Default the AWS Price List is
	// asked, once a day.
	Catalog string `yaml:"catalog" job:"env,path"`
	// Advisor is a file of Amazon's Spot Instance Advisor, as `local.advisor`. Default its page is asked, once a day.
	Advisor string `yaml:"advisor" job:"env,path"`
	// Disk is the size of the encrypted root volume. Default 16GB.
	Disk Memory `yaml:"disk"`
	// Device is how the image names its root volume. Default `/dev/xvda`.
	Device string `yaml:"device"`
	// Controller is where `tierml run` puts the job from elsewhere. Default: found by its tag.
	Controller Controller `yaml:"controller"`
	// Listen is the address at which machines reach this controller, host:port. Default: this machine's own address, and
	// any port.
	Listen string `yaml:"listen"`
	// Endpoint is another place that speaks EC2's protocol: https, or on this host. Default EC2's own.
	Endpoint string `yaml:"endpoint"`
	// FlopsPerVCPU is what one vCPU is taken to compute in a second, for plans; nobody is held to it. Default 1G.
	FlopsPerVCPU Rate `yaml:"flops_per_vcpu"`
}

// Program is a program to fetch.
type Program struct {
	// URL is where it is: `https://HOST/PATH`, `s3://BUCKET/KEY` or, on Compute Engine, `gs://BUCKET/KEY`. Required.
	URL string `yaml:"url"`
	// SHA256 is what `sha256sum` prints of it, in hexadecimal digits; a machine runs nothing else. Required.
	SHA256 string `yaml:"sha256"`
}

const ec2Notice = 2 * time.Minute

// ec2 checks what only cloud: ec2 has, and fills in what a real cloud means for the rest.
func (c *checker) ec2() {
	j, e := c.job, &c.job.EC2
	if j.Cloud != CloudEC2 {
		if c.written("ec2") && j.Cloud != "" && !c.broken("cloud") {
			c.fault("ec2", "is for cloud: ec2 only", "remove it")
		}
		return
	}
	setDefault(&e.Cluster, "tierml", c.written("ec2.cluster"))
	setDefault(&e.Device, "/dev/xvda", c.written("ec2.device"))
	setDefault(&e.Disk, Memory{MiB: 16 << 10}, c.written("ec2.disk"))
	setDefault(&e.FlopsPerVCPU, 1e9, c.written("ec2.flops_per_vcpu"))
	for _, f := range []struct{ name, value, example string }{
		{"region", e.Region, "region: us-west-2"}, {"image", e.Image, "image: ami-0123456789abcdef0"},
		{"program", e.Program.URL + e.Program.SHA256, "program: {url: s3://BUCKET/tierml, sha256: ...}"},
	} {
		if path := "ec2." + f.name; f.value == "" && !c.written(path) {
			c.fault(path, "is missing; cloud: ec2 needs it", "below ec2:, add "+f.example)
		}
	}
	if e.Catalog != "" {
		c.path("ec2.catalog", &e.Catalog)
	}
	if e.Advisor != "" {
		c.path("ec2.advisor", &e.Advisor)
	}
	c.program("ec2.program", e.Program, "s3")
	c.region("ec2.region", e.Region, "us-west-2")
	c.listen("ec2.listen", e.Listen)
	c.controller("ec2.controller", &e.Controller, "t3.small")
	c.place("ec2.checkpoints", &e.Checkpoints)
	if j.Checkpoint.To == "" {
		j.Checkpoint.To = e.Checkpoints
	}
	if j.Checkpoint.To == "" || !blob.IsURL(j.Checkpoint.To) && e.Endpoint == "" {
		c.fault("ec2.checkpoints", "is missing: machines read their splits and keep checkpoints in a place that all of them reach",
			"below ec2:, add checkpoints: s3://BUCKET/PREFIX")
	}
	j.Local = Local{Rules: "ec2-now", Speed: 1, Notice: ec2Notice, Boot: tempo.RemoteBoot, FlopsPerVCPU: e.FlopsPerVCPU}
}

// safeName is what may stand in a script without quotes.
var safeName = regexp.MustCompile(`^[A-Za-z0-9:/._~%+=@-]+$`)

// program checks where machines get the program from: over https, or from the provider's store.
func (c *checker) program(path string, p Program, store string) {
	if p.URL == "" && p.SHA256 == "" {
		return // it is said that it is missing
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.Path == "" || !safeName.MatchString(p.URL) ||
		u.Scheme != "https" && u.Scheme != store && !(u.Scheme == "http" && loopback(u.Hostname())) {
		c.fault(path+".url", fmt.Sprintf("%q is no place to fetch a program from", p.URL), "write https://HOST/PATH or "+store+"://BUCKET/KEY")
	}
	if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 || strings.ToLower(p.SHA256) != p.SHA256 {
		c.fault(path+".sha256", "is not a SHA-256 in 64 hexadecimal digits", "write what `sha256sum FILE` prints")
	}
}

func (c *checker) region(path, region, example string) {
	if region != "" && !safeName.MatchString(region) {
		c.fault(path, fmt.Sprintf("%q is not a region", region), "write one such as "+example)
	}
}

// listen checks the address at which machines reach the controller.
func (c *checker) listen(path, address string) {
	if address == "" {
		return
	}
	if host, _, err := net.SplitHostPort(address); err != nil || net.ParseIP(host) == nil {
		c.fault(path, fmt.Sprintf("%q is not an address and a port", address), "write one such as 10.0.0.5:7071")
	} else if net.ParseIP(host).IsUnspecified() {
		c.fault(path, address+" is every address: machines must know one", "write the one by which they reach this host")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
