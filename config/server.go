package config

import (
	"fmt"
	"net/url"
	"strings"
)

// Controller is where the job server of an installation is, how people reach it, and what one is made of that `tierml
// server start` launches.
type Controller struct {
	// Instance is its instance id on EC2, its name on Compute Engine. Default: found in the same way.
	Instance string `yaml:"instance"`
	// Zone is its zone, which Compute Engine's tunnel needs. Default: found with it.
	Zone string `yaml:"zone"`
	// URL is its address, if no tunnel is needed. Default: through a tunnel.
	URL string `yaml:"url"`
	// Port is the port that it listens on, on its own host. Default 7071.
	Port int `yaml:"port"`
	// Tunnel is the command that opens a tunnel to it, without quoting, with the placeholders {local}, {port}, {instance}, {zone}, {region} and
	// {project}. Default Session Manager's or Identity-Aware Proxy's.
	Tunnel string `yaml:"tunnel"`
	// Token is the command that prints its token, in the same form. Default `cat` over the same connection.
	Token string `yaml:"token"`
	// Type of the machine that `tierml server start` buys. Default `t3.small`, or `e2-small`.
	Type string `yaml:"type"`
	// Role is its instance profile, or service account. Required to start one.
	Role string `yaml:"role"`
	// Network are its security groups, or its network tags. Default those of the machines.
	Network []string `yaml:"network"`
	// Disk is the size of its disk. Default 30GB.
	Disk Memory `yaml:"disk"`
}

// ControllerPort is where job servers listen.
const ControllerPort = 7071

// Named reports whether the job file names a job server, and how to reach it.
func (k Controller) Named() bool { return k.Instance != "" || k.URL != "" || k.Tunnel != "" }

// controller checks a block `controller`, and fills in defaults.
func (c *checker) controller(path string, k *Controller, kind string) {
	setDefault(&k.Port, ControllerPort, c.written(path+".port"))
	setDefault(&k.Type, kind, c.written(path+".type"))
	setDefault(&k.Disk, Memory{MiB: 30 << 10}, c.written(path+".disk"))
	if k.Port < 1 || k.Port > 65535 {
		c.fault(path+".port", fmt.Sprintf("%d is no port", k.Port), "write 1 to 65535")
	}
	if k.URL != "" {
		u, err := url.Parse(k.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
			c.fault(path+".url", fmt.Sprintf("%q is no address of a job server", k.URL), "write https://HOST, or http://localhost:7071 on this host")
		}
		if k.Tunnel != "" {
			c.fault(path+".tunnel", "has no use beside url, which needs none", "remove one of the two")
		}
	}
	for _, f := range []struct{ name, value string }{{"instance", k.Instance}, {"zone", k.Zone}, {"role", k.Role}} {
		if f.value != "" && (!safeName().MatchString(f.value) || strings.HasPrefix(f.value, "-")) { // it becomes a word of a command
			c.fault(path+"."+f.name, fmt.Sprintf("%q is not a name", f.value), "write what terraform prints")
		}
	}
	if k.Tunnel != "" && !strings.Contains(k.Tunnel, "{local}") {
		c.fault(path+".tunnel", "does not say {local}, the port on this host", "write it as in docs/server.md")
	}
}
