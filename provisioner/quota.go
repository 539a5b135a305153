package provisioner

import "time"

// CapacityAdvice is a provider's forecast for a request for machines of one pool now
// (https://docs.cloud.google.com/compute/docs/instances/view-vm-availability).
type CapacityAdvice struct {
	// Obtainability is the likelihood that the request is met, from 0 to 1; from 0.7 on it is high.
	Obtainability float64
	// Uptime is how long most machines are expected to run at least: an hour, or ten minutes. 0 = unknown.
	Uptime time.Duration
}

// Quota is a limit on an account's use, with the provider's name for it.
type Quota struct {
	Name        string
	Limit, Used float64
}
