//go:build !linux

package fakecloud

import "os/exec"

func coresHere() []int { return nil }

func startOn(_ []int, command *exec.Cmd) error { return command.Start() }
