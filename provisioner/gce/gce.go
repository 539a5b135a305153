// Package gce is to be Google Compute Engine as a provisioner.Cloud, on the official client for Go (REST). So far it knows
// its configuration and Compute Engine's error codes. It is the only package that imports that client, which is large.
package gce

// Provider is Compute Engine's name in pools.
const Provider = "gce"
