package config

import (
	"fmt"
	"os"
	"time"

	"github.com/tierml/tierml/bidding"
)

// Hosts makes a file describe machines that jobs share, instead of a job: docs/hosts.md.
type Hosts struct {
	// Keep is how long a host without slots is kept unless it is paid by the hour. Default 5m.
	Keep time.Duration `yaml:"keep"`
	// Wait is how long a slot waits for a host before its launch fails. Default 1h.
	Wait time.Duration `yaml:"wait"`
	// LossLimit is the share of its speed that a job may lose on a shared host ([serving](hosts.md#serving)). Default 0.1.
	LossLimit float64 `yaml:"loss_limit"`
	// Users are the numbers of [other users](hosts.md#other-users) of this computer who may request slots. Default none.
	Users Machines `yaml:"users"`
	// Door is a folder that `users` can read, through which they request slots: `tierml run --on DOOR`. Default none.
	Door string `yaml:"door"`
}

// hostClouds are the values of `cloud:` that support hosts.
func hostClouds() []string {
	return append([]string{CloudLocal}, names(func(p Provider) bool { return p.SharesHosts })...)
}

// Admits reports whether another user of this computer may ask for slots.
func (h Hosts) Admits(uid int) bool { return uid >= h.Users.Least && uid <= h.Users.Most && uid > 0 }

// IsHosts reports whether the file describes machines that jobs share.
func (j *Job) IsHosts() bool { return j.Hosts.Wait > 0 }

// LoadHosts reads a file that describes machines that jobs share: a job file with hosts: instead of train:.
func LoadHosts(path string) (*Job, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	job, err := parse(path, text, os.LookupEnv)
	if err == nil && !job.IsHosts() {
		return nil, job.Fault("", "describes a job, not machines that jobs share", "write hosts: {keep: 5m} in place of train: or run:")
	}
	return job, err
}

// onlyJob refuses a file of shared machines where a job is expected.
func onlyJob(job *Job, err error) (*Job, error) {
	if err == nil && job.IsHosts() {
		return nil, job.Fault("hosts", "describes machines that jobs share, not a job", "start them by `tierml hosts`, or write train: or run: in its place")
	}
	return job, err
}

// hosts checks a file of shared machines.
func (c *checker) hosts() {
	j := c.job
	for _, field := range append([]string{"train", "run", "tune", "stages", "deadline"}, programFields...) {
		if c.written(field) {
			c.fault(field, "has no meaning with hosts: jobs say what they run", "remove it")
		}
	}
	if !c.written("policy") {
		j.Policy = bidding.TierML{}.Name()
	}
	if j.Restarts() || j.Policy == Auto {
		c.fault("policy", j.Policy+" buys for one job's run, and these are machines for many", "write tierml, cost-per-work or capacity")
	}
	if j.Reliable.Count > 0 && j.Reliable.Type == "" {
		c.fault("reliable.type", "is missing: what a reliable host is follows from no model", "write "+example("type")+", or count: 0")
	}
	if (j.Hosts.Users.Most > 0) != (j.Hosts.Door != "") {
		c.fault("hosts", "has only one of users and door", "write users: 20000..20099 and door: /srv/tierml, or neither")
	}
	if p, real := ProviderNamed(j.Cloud); real && p.OneUser && j.Hosts.Door != "" {
		c.fault("hosts.users", "cannot be kept apart on "+p.Title+": all slots of a host are processes of one user there", "remove users and door")
	}
	c.positiveTime("hosts.keep", j.Hosts.Keep)
	c.positiveTime("hosts.wait", j.Hosts.Wait)
	setDefault(&j.Hosts.Keep, 5*time.Minute, c.written("hosts.keep"))
	setDefault(&j.Hosts.Wait, time.Hour, c.written("hosts.wait"))
	if setDefault(&j.Hosts.LossLimit, 0.1, c.written("hosts.loss_limit")); j.Hosts.LossLimit <= 0 || j.Hosts.LossLimit >= 1 {
		c.fault("hosts.loss_limit", fmt.Sprintf("%v is not a share above 0 and below 1", j.Hosts.LossLimit), "write 0.1, or leave it out")
	}
	j.Train, j.Stages = Train{}, Stages{}
}
