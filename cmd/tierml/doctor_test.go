package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// doctor checks what a program brings along: its folder, its secrets and what its image needs. It requires no training data.
func TestDoctorOfAProgram(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.programJob(oneMachine, "run: bash count.sh", "secrets: {KEY: {env: THE_KEY}}", "image: python:3.12-slim")
	tools := t.TempDir() // without a runtime, even if this host has one
	if err := os.WriteFile(filepath.Join(tools, "podman"), []byte("#!/bin/sh\necho no user namespaces >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	doctor := func(want int, environment ...string) string {
		t.Helper()
		cmd := exec.Command(builtBinary(t), "doctor", job)
		cmd.Env = append(os.Environ(), environment...)
		return strings.Join(strings.Fields(s.startCommand(cmd).wait(want)), " ")
	}
	says := func(out string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not in: %s", w, out)
			}
		}
	}
	out := doctor(cli.ExitFailed, "PATH="+tools, "THE_KEY=hush-17")
	says(out, "✓ workdir", "in 1 files", "✓ secrets 1 have values", "✗ containers no container runtime is here: docker is not installed, podman does not work: no user namespaces",
		"1 of ")
	if strings.Contains(out, "hush-17") {
		t.Errorf("the secret is in: %s", out)
	}
	if err := os.WriteFile(filepath.Join(tools, "podman"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	says(doctor(cli.ExitDone, "PATH="+tools, "THE_KEY=hush-17"), "✓ containers podman works here")
	says(doctor(cli.ExitFailed, "PATH="+tools), "✗ secrets", "the environment does not set THE_KEY")

	// A folder that exceeds the limit is refused with its largest files, by doctor and by the plan.
	large, err := os.Create(s.path("work", "model.bin"))
	if err == nil {
		err = large.Truncate(3 << 30) // sparse
	}
	if err != nil {
		t.Fatal(err)
	}
	const words = "has 3.2 GB, more than the 2.1 GB that are sent to each machine; the largest: model.bin"
	says(doctor(cli.ExitFailed, "PATH="+tools, "THE_KEY=hush-17"), "✗ workdir", words)
	plan := exec.Command(builtBinary(t), "plan", job)
	plan.Env = append(os.Environ(), "THE_KEY=hush-17")
	says(strings.Join(strings.Fields(s.startCommand(plan).wait(cli.ExitUsage)), " "), words, ".tierignore")
	s.write("work/.tierignore", "*.bin\n")
	says(doctor(cli.ExitDone, "PATH="+tools, "THE_KEY=hush-17"), "✓ workdir")
}
