// Package terraform holds what Terraform's modules and this program both install on a job server's machine: its services.
//
// It does not know how machines are made.
package terraform

import _ "embed"

// Unit is a systemd unit.
type Unit struct{ Name, Text string }

// Units returns the job server's own, and a timer that runs gc even when the job server does not run.
func Units() []Unit {
	return []Unit{{"tierml-server.service", server}, {"tierml-expired.service", expired}, {"tierml-expired.timer", timer}}
}

//go:embed tierml-server.service
var server string

//go:embed tierml-expired.service
var expired string

//go:embed tierml-expired.timer
var timer string
