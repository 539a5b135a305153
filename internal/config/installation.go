package config

// Installation is what jobs on every real cloud have in common, whichever block of the job file says it.
type Installation struct {
	// Block is the field that says it all, which has the cloud's name: its fields are EC2's or GCE's.
	Block                           string
	Region, Cluster                 string
	Program                         Program
	Catalog, Listen, Endpoint, Name string // Name is the provider's, for people
}

// Installation is nil where machines are processes of this host, or there are none.
func (j *Job) Installation() *Installation {
	switch j.Cloud {
	case CloudEC2:
		e := j.EC2
		return &Installation{CloudEC2, e.Region, e.Cluster, e.Program, e.Catalog, e.Listen, e.Endpoint, "EC2"}
	case CloudGCE:
		g := j.GCE
		return &Installation{CloudGCE, g.Region, g.Cluster, g.Program, g.Catalog, g.Listen, g.Endpoint, "Compute Engine"}
	}
	return nil
}
