package provisioner

import "time"

// CapacityAdvice is what a provider thinks of a request for machines of one pool now
// (https://docs.cloud.google.com/compute/docs/instances/view-vm-availability).
type CapacityAdvice struct {
	// Obtainability is how likely the request is to be met, from 0 to 1; from 0.7 on it very likely is.
	Obtainability float64
	// Uptime is for how long most of the machines are expected to run at least: an hour, or ten minutes. 0 = it is unknown.
	Uptime time.Duration
}

// Quota is a limit on what an account may have at a time, by the provider's name of it.
type Quota struct {
	Name        string
	Limit, Used float64
}
