package ec2

import (
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
)

// Name is the provider's word in job files and pools.
const Name = "ec2"

// Block is what a job needs to know about an installation on EC2. The names are those of the Terraform module's output
// settings.
type Block struct {
	config.Installation
	// Image is the machine image (AMI), a Linux with bash, curl and, for a program in S3, the AWS command line. Default the newest Amazon Linux
	// 2023.
	Image string `yaml:"image"`
	// GPUImage is the image for jobs that request GPUs: an AMI, or `resolve:ssm:` followed by a Systems Manager parameter. Default the newest AWS
	// Deep Learning Base AMI for Amazon Linux 2023.
	GPUImage string `yaml:"gpu_image"`
	// Subnets gives the subnet in each zone. Default the zone's default subnet.
	Subnets map[string]string `yaml:"subnets"`
	// SecurityGroups must let machines reach each other and the controller on ports from 1024 up. Default the default group.
	SecurityGroups []string `yaml:"security_groups"`
	// InstanceProfile is the role with which machines read `program` and, without `store_role`, use splits and checkpoints. Default
	// none.
	InstanceProfile string `yaml:"instance_profile"`
	// StoreRole is the ARN of a role from which each run gets credentials for its own splits, checkpoints and state only. Default
	// the machines' own role.
	StoreRole string `yaml:"store_role"`
	// Advisor is a file of Amazon's Spot Instance Advisor. Default Amazon's page, read once a day.
	Advisor string `yaml:"advisor" job:"env,path"`
	// Device is the image's name for its root volume. Default `/dev/xvda`.
	Device string `yaml:"device"`
}

// Terms is the part of EC2 that job files have to know.
var Terms = config.Provider{
	Name: Name, Title: "EC2",
	Mistaken: map[string]string{"aws": "Amazon's cloud is called ec2 here"},
	New:      func() config.Block { return &Block{} },
	Chooses:  true, SharesHosts: true, Store: "s3", Rules: "ec2-now", Notice: 2 * time.Minute,
	Region: "us-west-2", ControllerType: "t3.small", RegionIn: []string{"AWS_REGION", "AWS_DEFAULT_REGION"},
	Examples: map[string]string{
		"installation": "installation: s3://BUCKET/installation.yaml", "region": "region: us-west-2", "image": "image: ami-0123456789abcdef0", "gpu_image": "gpu_image: ami-0123456789abcdef0", "subnets": "subnets: {us-west-2a: subnet-0a}",
		"security_groups": "security_groups: [sg-0a]", "instance_profile": "instance_profile: tierml-machines", "store_role": "store_role: arn:aws:iam::123456789012:role/tierml-store", "device": "device: /dev/xvda",
		"endpoint": "endpoint: https://ec2.us-west-2.amazonaws.com", "program": "program: {url: s3://BUCKET/tierml, sha256: 7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730}",
		"controller.url": "url: https://tierml.example.com", "controller.network": "network: [sg-0b]", "controller.type": "type: t3.small",
		"controller.disk": "disk: 30GB",
	},
	Play: &config.Play{Default: true, Rules: "ec2-2017", Notice: 4 * time.Second},
}

// Check validates the settings that only EC2 has.
func (b *Block) Check(c *config.Checker) {
	config.Default(c, "device", &b.Device, "/dev/xvda")
	c.Job.Local.Rules += b.feesOf(true).String()
	if c.Job.WantsGPUs() {
		config.Default(c, "gpu_image", &b.GPUImage, deepLearning(c.Job))
	} else {
		config.Default(c, "image", &b.Image, bySSM+"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"+arch(c.Job))
	}
	c.File("advisor", &b.Advisor)
}

// bySSM starts the name of an image that EC2 looks up in Systems Manager at each launch.
const bySSM = "resolve:ssm:"

// deepLearning is Amazon's own image with drivers for the GPUs that a job requests: machines with T4g have Graviton processors, all others
// x86_64. The name comes from the AWS Deep Learning AMIs Developer Guide, "Finding the ID of a DLAMI".
func deepLearning(job *config.Job) string {
	return bySSM + "/aws/service/deeplearning/ami/" + arch(job) + "/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
}

// arch returns the architecture of the machines that a job names: ARM if all are.
func arch(job *config.Job) string {
	for _, m := range job.Resources.AnyOf {
		if m.GPU.Model != "T4g" && m.Arch != market.ArchARM && (m.Type == "" || market.ArchOf(m.Type) != market.ArchARM) {
			return market.ArchX86
		}
	}
	for _, g := range job.Resources.GPU {
		if g.Model != "T4g" {
			return market.ArchX86
		}
	}
	return market.ArchARM
}

// image returns what the job's machines boot from.
func image(job *config.Job) string {
	if job.WantsGPUs() {
		return blockOf(job).GPUImage
	}
	return blockOf(job).Image
}

// GivesKeys reports whether runs get credentials of their own.
func (b *Block) GivesKeys() bool { return b.StoreRole != "" }

// of returns the block of a job with cloud: ec2.
func blockOf(job *config.Job) *Block { return job.Block.(*Block) }
