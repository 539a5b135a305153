package config

import (
	"bytes"

	"gopkg.in/yaml.v3"
)

// Installation is what jobs on every real cloud have in common, whichever block of the job file says it.
type Installation struct {
	// Block is the field that says it all, which has the cloud's name: its fields are EC2's or GCE's.
	Block                           string
	Region, Cluster                 string
	Program                         Program
	Catalog, Listen, Endpoint, Name string // Name is the provider's, for people
	Project                         string // Compute Engine's
	Controller                      Controller
}

// Installation is nil where machines are processes of this host, or there are none.
func (j *Job) Installation() *Installation {
	switch j.Cloud {
	case CloudEC2:
		e := j.EC2
		return &Installation{CloudEC2, e.Region, e.Cluster, e.Program, e.Catalog, e.Listen, e.Endpoint, "EC2", "", e.Controller}
	case CloudGCE:
		g := j.GCE
		return &Installation{CloudGCE, g.Region, g.Cluster, g.Program, g.Catalog, g.Listen, g.Endpoint, "Compute Engine", g.Project, g.Controller}
	}
	return nil
}

// Settings is the block of the installation as a file of its own, as Terraform prints it, without what is of the host on
// which the job file is.
func (j *Job) Settings() []byte {
	bare := *j
	bare.EC2.Catalog, bare.EC2.Controller, bare.EC2.Listen = "", Controller{}, ""
	bare.GCE.Catalog, bare.GCE.Prices, bare.GCE.Controller, bare.GCE.Listen = "", "", Controller{}, ""
	root := bare.resolvedNode()
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == j.Cloud {
			root.Content = root.Content[i : i+2]
			break
		}
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		panic("config: a tree of plain nodes did not encode: " + err.Error())
	}
	return b.Bytes()
}
