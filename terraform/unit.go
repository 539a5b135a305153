// Package terraform holds what Terraform's modules and this program both give to a controller's machine: its services.
//
// It knows nothing about how machines are made.
package terraform

import _ "embed"

// Unit is a systemd unit.
type Unit struct{ Name, Text string }

// Units are those of a controller: the controller itself, and a timer that ends leaks also when the controller does not run.
func Units() []Unit {
	return []Unit{{"tierml-controller.service", controller}, {"tierml-expired.service", expired}, {"tierml-expired.timer", timer}}
}

//go:embed tierml-controller.service
var controller string

//go:embed tierml-expired.service
var expired string

//go:embed tierml-expired.timer
var timer string
