package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
)

// Provider is what a job file needs to know about a provider. Everything in it is data except New: a provider's own
// checks are methods of its block.
type Provider struct {
	// Name is the word in `cloud:`, and the name of its block.
	Name string
	// Title is its usual name, such as "EC2".
	Title string
	// Mistaken are words that people write instead of Name, with the problem.
	Mistaken map[string]string
	// New returns its empty block of a job file.
	New func() Block
	// Chooses: a purchase may name several pools, and the provider chooses among them.
	Chooses bool
	// SharesHosts: its machines can be hosts that jobs share. OneUser: all processes of a host are one user's there, so that its jobs must be, too.
	SharesHosts, OneUser bool
	// HasProgram: machines have the program, as images do; `program` is not used.
	HasProgram bool
	// Store is the scheme of its object store, such as s3.
	Store string
	// Rules is the rule book that bills its machines, and Notice the warning that it promises.
	Rules  string
	Notice time.Duration
	// Region and ControllerType are a usual region and machine type for a job server.
	Region, ControllerType string
	// RegionIn are variables of the environment that name a region.
	RegionIn []string
	// FindsRegion: a job may leave the region open, and the provider finds it.
	FindsRegion bool
	// Examples show in messages how fields of the block are written, by their path in it.
	Examples map[string]string
	// Play is how the cloud on this host simulates the provider; nil = it cannot.
	Play *Play
}

// Play is the defaults of a cloud on this host that simulates a provider.
type Play struct {
	Rules   string
	Notice  time.Duration
	Default bool // if a job names no provider
	// OwnRules: prefixes of other providers' rule books, which do not apply.
	OwnRules []string
}

// Block is a provider's part of the job file: a pointer to a struct that embeds Installation and has fields of its own, tagged like those
// of Job.
type Block interface {
	// Shared is the embedded Installation.
	Shared() *Installation
	// Check rejects impossible values in the block's own fields, and fills in defaults. Fields of Installation have already been checked.
	Check(c *Checker)
}

// providers are the registered ones, the default first, the others by name. It is only changed before main begins.
var providers []Provider

// Register adds a provider to those that job files may name. It is for init functions (providers.Register).
func Register(p Provider) {
	if _, known := ProviderNamed(p.Name); known {
		panic("config: there are two providers " + p.Name)
	}
	providers = append(providers, p)
	slices.SortFunc(providers, func(a, b Provider) int {
		switch first := a.Play != nil && a.Play.Default; {
		case first == (b.Play != nil && b.Play.Default):
			return strings.Compare(a.Name, b.Name)
		case first:
			return -1
		}
		return 1
	})
}

// ProviderNamed finds a provider.
func ProviderNamed(name string) (Provider, bool) {
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return providers[i], true
}

// Title returns the usual name of a provider; its name if it is unknown.
func Title(name string) string {
	if p, known := ProviderNamed(name); known {
		return p.Title
	}
	return name
}

func names(keep func(Provider) bool) (out []string) {
	for _, p := range providers {
		if keep(p) {
			out = append(out, p.Name)
		}
	}
	return out
}

// RealClouds returns the values of `cloud:` that buy real machines.
func RealClouds() []string { return names(func(Provider) bool { return true }) }

// NameRealCloud returns the advice for a job that buys no real machines.
func NameRealCloud() string { return "name a job with cloud: " + orList(RealClouds()) }

// Clouds returns all values of `cloud:`.
func Clouds() []string { return append(append([]string{CloudLocal}, RealClouds()...), CloudNone) }

// Played returns the values of `provider:`; the first is the default.
func Played() []string { return names(func(p Provider) bool { return p.Play != nil }) }

// Installation is what jobs on every real cloud have in common. Blocks embed it.
type Installation struct {
	// Installation is the location of the block's other settings: a file, or an address such as `s3://BUCKET/installation.yaml`. The block's own
	// settings take precedence. Default that of the job server started last, if the block has no program.
	Installation string `yaml:"installation"`
	// Region of the machines. Required without AWS_REGION.
	Region string `yaml:"region"`
	// Cluster is the tag or label that marks the installation's machines. Default `tierml`, shared by all installations that name none.
	Cluster string `yaml:"cluster"`
	// Owner becomes a tag or label of every machine. Default none.
	Owner string `yaml:"owner"`
	// Program is the `tierml` binary that machines run, built for their system. Required.
	Program Program `yaml:"program"`
	// Checkpoints is the location of splits and checkpoints. Required without `checkpoint.to`.
	Checkpoints string `yaml:"checkpoints"`
	// Catalog lists machine types with their on-demand prices, like `local.catalog`. Default the provider's price list, read once a
	// day.
	Catalog string `yaml:"catalog" job:"env,path"`
	// Disk is the size of a machine's disk. Default 16GB.
	Disk Memory `yaml:"disk"`
	// Controller is the job server to which `tierml run` submits. Default: found by its tag or label.
	Controller Controller `yaml:"controller"`
	// Listen is the address at which machines reach this controller. Default: this machine's own, on any port.
	Listen string `yaml:"listen"`
	// Endpoint is another server that speaks the provider's protocol. Default the provider's own.
	Endpoint string `yaml:"endpoint"`
	// FlopsPerVCPU is the compute rate of one vCPU that plans assume. Default 1G.
	FlopsPerVCPU Rate `yaml:"flops_per_vcpu"`

	// What follows is not in the file: how long a machine may wait for its place before it boots; the block's name, which is
	// the provider's; what people call the provider; the account, where names of clusters are unique only within one; and
	// whether the file names the cluster, as all files without one share the default.
	Wait                 time.Duration
	Block, Name, Project string
	ClusterNamed         bool
}

// Shared returns itself: blocks embed it.
func (i *Installation) Shared() *Installation { return i }

// Manifest is a part of another system's file. Only that system's package knows its fields.
type Manifest map[string]any

// Program is a program to fetch.
type Program struct {
	// URL is its location: `https://HOST/PATH`, or in the provider's store, such as `s3://BUCKET/KEY`. Required.
	URL string `yaml:"url"`
	// SHA256 is its SHA-256 sum, as `sha256sum` prints it. Required.
	SHA256 string `yaml:"sha256"`
}

// MachineSize returns the vCPUs, memory and GPUs of a job's machines where the job says them, whatever the type: pods. Zero: the type says them.
func (j *Job) MachineSize() (size market.InstanceType) {
	if b, sized := j.Block.(interface{ MachineSize() market.InstanceType }); sized {
		size = b.MachineSize()
	}
	return size
}

// Installation returns nil if machines are processes of this host, or there are none.
func (j *Job) Installation() *Installation {
	if j.Block == nil {
		return nil
	}
	i := *j.Block.Shared()
	i.Block, i.Name, i.ClusterNamed = j.Cloud, Title(j.Cloud), j.Written(j.Cloud+".cluster")
	return &i
}

// MachineFees returns a machine's billed costs in addition to its hours: its disk, at a price per GiB and month, and a
// public address per hour.
func MachineFees(disk Memory, perGiB, address market.USD, public bool) market.Fees {
	fees := market.DefaultFees()
	fees.DiskGiB, fees.DiskGiBMonth = int((disk.MiB+1023)>>10), perGiB
	if public {
		fees.Address = address
	}
	return fees
}

// Checker checks a provider's block. Fields are named by their path within it.
type Checker struct {
	c     *checker
	block string
	// Job is the whole job; other providers' blocks must not matter.
	Job *Job
}

func (k *Checker) path(field string) string { return k.block + "." + field }

// Written reports whether the file mentions the field.
func (k *Checker) Written(field string) bool { return k.c.written(k.path(field)) }

// FaultOfGPUs reports a problem with the GPUs that the job requests.
func (k *Checker) FaultOfGPUs(problem, instead string) { k.c.fault("resources", problem, instead) }

// Fault reports a mistake in a field.
func (k *Checker) Fault(field, problem, instead string) { k.c.fault(k.path(field), problem, instead) }

// Required reports a field without a value.
func (k *Checker) Required(field, value string) {
	if value == "" && !k.Written(field) {
		k.Fault(field, "is missing; cloud: "+k.block+" needs it", "below "+k.block+":, add "+example(k.path(field)))
	}
}

// OneOf rejects a value that is none of the words.
func (k *Checker) OneOf(field, value string, words ...string) {
	k.c.oneOf(k.path(field), value, words...)
}

// File makes the path of a file absolute and checks that it exists. Empty is accepted.
func (k *Checker) File(field string, path *string) { k.c.path(k.path(field), path) }

// Default sets a field's default, unless the file mentions it.
func Default[T any](k *Checker, field string, target *T, usual T) {
	setDefault(target, usual, k.Written(field))
}

// Duration formats a duration for job files.
func Duration(d time.Duration) string { return formatDuration(d) }

// provided checks the block of the job's provider, and fills in the consequences of a real cloud for the rest.
func (c *checker) provided() {
	j := c.job
	for _, p := range providers {
		if p.Name != j.Cloud && c.written(p.Name) && j.Cloud != "" && !c.broken("cloud") {
			c.fault(p.Name, "is for cloud: "+p.Name+" only", "remove it")
		}
	}
	p, real := ProviderNamed(j.Cloud)
	if !real {
		return
	}
	if j.Block == nil {
		j.Block = p.New()
	}
	k := &Checker{c, p.Name, j}
	i := j.Block.Shared()
	Default(k, "cluster", &i.Cluster, "tierml")
	disk := Memory{MiB: 16 << 10}
	if j.WantsGPUs() {
		disk.MiB = 100 << 10 // images with drivers are large
	}
	Default(k, "disk", &i.Disk, disk)
	Default(k, "flops_per_vcpu", &i.FlopsPerVCPU, 1e9)
	if !p.FindsRegion {
		k.Required("region", i.Region)
	}
	if !p.HasProgram {
		k.Required("program", i.Program.URL+i.Program.SHA256)
	} else if k.Written("program") {
		k.Fault("program", p.Title+" runs what the machines' image has", "remove it")
	}
	k.File("catalog", &i.Catalog)
	c.program(k.path("program"), i.Program, p.Store)
	c.region(k.path("region"), i.Region, p.Region)
	c.listen(k.path("listen"), i.Listen)
	c.controller(k.path("controller"), &i.Controller, p.ControllerType)
	j.Local = Local{Rules: p.Rules, Speed: 1, Notice: p.Notice, Boot: tempo.RemoteBoot, FlopsPerVCPU: i.FlopsPerVCPU}
	j.Block.Check(k)
	c.commonPlace(k, i, p)
}

// commonPlace checks where machines read their splits and keep checkpoints.
func (c *checker) commonPlace(k *Checker, i *Installation, p Provider) {
	c.place(k.path("checkpoints"), &i.Checkpoints)
	to := &c.job.Checkpoint.To
	if *to == "" {
		*to = i.Checkpoints
	}
	if *to == "" || !location.IsURL(*to) && i.Endpoint == "" {
		k.Fault("checkpoints", "is missing: machines read their splits and keep checkpoints in a place that all of them reach",
			"below "+p.Name+":, add checkpoints: "+p.Store+"://BUCKET/PREFIX")
	}
}

// real checks what is common to every real cloud.
func (c *checker) real() {
	j := c.job
	if c.written("provider") {
		c.fault("provider", "is for cloud: local, which plays it", "remove it")
	}
	setDefault(&j.Security, SecurityTLS, c.written("security"))
	if j.Security == SecurityPlain {
		c.fault("security", "plain works on one host only", "write tls, or remove the line")
	}
	c.oneOf("security", j.Security, SecurityTLS, SecurityPlain)
	setDefault(&j.OrphanAfter, 15*time.Minute, c.written("orphan_after"))
	setDefault(&j.Heartbeat, 2*time.Second, c.written("heartbeat"))
	setDefault(&j.DeadAfter, tempo.RemoteDeadAfter, c.written("dead_after"))
	setDefault(&j.Checkpoint.Every, j.savesEvery(), c.written("checkpoint.every") || c.written("checkpoint.every_clocks"))
}

// unknownCloud reports an unknown value of cloud.
func (c *checker) unknownCloud() {
	for _, p := range providers {
		if problem, known := p.Mistaken[c.job.Cloud]; known {
			c.fault("cloud", problem, "write cloud: "+p.Name)
			return
		}
	}
	c.oneOf("cloud", c.job.Cloud, Clouds()...)
}

// provider checks which cloud the local one simulates, and fills in its defaults.
func (c *checker) provider() {
	j := c.job
	played := Played()
	if len(played) > 0 {
		setDefault(&j.Provider, played[0], c.written("provider"))
	}
	c.oneOf("provider", j.Provider, played...)
	p, known := ProviderNamed(j.Provider)
	if !known || p.Play == nil {
		return
	}
	setDefault(&j.Local.Rules, p.Play.Rules, c.written("local.rules"))
	setDefault(&j.Local.Notice, p.Play.Notice, c.written("local.notice"))
	base, _, _ := strings.Cut(j.Local.Rules, "+")
	for _, other := range providers {
		if len(p.Play.OwnRules) > 0 && other.Name != p.Name && strings.HasPrefix(base, other.Name+"-") {
			c.fault("local.rules", base+" bills "+other.Title+"'s machines", "write "+orList(p.Play.OwnRules))
		}
	}
}

// allocation checks which side chooses among pools.
func (c *checker) allocation() {
	r := &c.job.Resources
	p, real := ProviderNamed(c.job.Cloud)
	if real && p.Chooses {
		setDefault(&r.Allocation, AllocationPriceCapacity, c.written("resources.allocation"))
	}
	if r.Allocation == "" && !c.written("resources.allocation") {
		return
	}
	c.oneOf("resources.allocation", r.Allocation, AllocationOnePool, AllocationPriceCapacity, AllocationCapacityOptimized)
	if !real {
		p, real = ProviderNamed(c.job.Provider)
	}
	if r.ProviderChooses() != "" && real && !p.Chooses {
		c.fault("resources.allocation", p.Title+" does not choose among pools", "write one-pool, or remove the line")
	}
}

// member is a field of the schema with its value.
type member struct {
	field
	value reflect.Value
}

// membersOf returns the fields of a struct, with those of embedded structs in their place. Those of a Job end with the block of each
// provider: the job's own, and empty ones.
func membersOf(v reflect.Value) (all []member) {
	for _, f := range fieldsOf(v.Type()) {
		all = append(all, member{f, v.FieldByIndex(f.index)})
	}
	if v.Type() != reflect.TypeFor[Job]() {
		return all
	}
	cloud, own := v.FieldByName("Cloud").String(), v.FieldByName("Block").Interface()
	for _, p := range providers {
		block := own
		if p.Name != cloud || own == nil || own == Block(nil) {
			block = p.New()
		}
		all = append(all, member{field{name: p.Name}, reflect.ValueOf(block).Elem()})
	}
	return all
}

// blockFor creates the block of the cloud that a file names.
func blockFor(cloud string) Block {
	if p, known := ProviderNamed(cloud); known {
		return p.New()
	}
	return nil
}

// cloned returns a block that can be changed without the job's.
func cloned(b Block) Block {
	if b == nil {
		return nil
	}
	c := reflect.New(reflect.TypeOf(b).Elem())
	c.Elem().Set(reflect.ValueOf(b).Elem())
	return c.Interface().(Block)
}

// exampleOf returns a provider's example of a field of its block.
func exampleOf(path string) (string, bool) {
	block, rest, below := strings.Cut(path, ".")
	p, known := ProviderNamed(block)
	if !known {
		return "", false
	}
	if !below {
		return fmt.Sprintf("%s:, and below it what terraform prints", block), true
	}
	text, ok := p.Examples[rest]
	return text, ok
}
