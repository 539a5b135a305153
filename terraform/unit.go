// Package terraform holds what Terraform's modules and this program both give to a controller's machine: its service.
//
// It refuses to know how machines are made.
package terraform

import _ "embed"

// Unit is the systemd unit of a controller.
//
//go:embed tierml-controller.service
var Unit string
