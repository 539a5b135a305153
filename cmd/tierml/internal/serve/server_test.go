package serve

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// Programs of one group could read other groups' data: they do not run as the job server's user.
func TestGroupsAndProgramsOnTheHostAreRefused(t *testing.T) {
	groups := filepath.Join(t.TempDir(), "groups.yaml")
	if err := os.WriteFile(groups, []byte("vision: {quota: {jobs: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := serverOptions{home: t.TempDir(), groupFile: groups, allow: []string{"programs"}, maxRunning: 1, maxQueued: 1, maxUpload: 1, over: "stop"}
	o.door.Address = "localhost:0"
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a job server that starts would end at once
	if err := serveJobs(ctx, o, io.Discard, io.Discard); err == nil || cli.ExitCodeOf(err) != cli.ExitUsage || !strings.Contains(err.Error(), "--isolate") {
		t.Errorf("%v", err)
	}
	o.allow = nil
	if err := serveJobs(ctx, o, io.Discard, io.Discard); err != nil {
		t.Errorf("without programs: %v", err)
	}
}

// With --isolate nothing belongs to several groups.
func TestIsolateTakesSeparateGroups(t *testing.T) {
	const one, two = "9d1c5e0f6a1b4c3d2e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5", "0b7e3f5a9c8d1e2f30415263748596a7b8c9dae1f2031425364758697a8b9cad"
	for what, c := range map[string]struct {
		groups string
		more   []string
		says   string
	}{
		"no groups":            {"", nil, "add --groups FILE"},
		"all groups":           {`{"*": {watch: [` + one + `]}, vision: {}}`, nil, `"*" cannot be one`},
		"a name that leads up": {`{"../x": {}}`, nil, "cannot be one"},
		"a common token":       {"{vision: {watch: [" + one + "]}, speech: {submit: [" + two + ", " + one + "]}}", nil, "a token in common"},
		"a common budget":      {"{vision: {}}", []string{"--budget", "20"}, "--budget is for all groups together"},
		"an administrator":     {"{vision: {}}", []string{"--set", "accept-sha256=" + one}, "--set=accept-sha256 is for all groups together"},
	} {
		dir := t.TempDir()
		args := append([]string{"--isolate", "--directory", dir, "--listen", "localhost:0"}, c.more...)
		if c.groups != "" {
			file := filepath.Join(dir, "groups.yaml")
			if err := os.WriteFile(file, []byte(c.groups), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--groups", file)
		}
		if os.Geteuid() != 0 {
			c.says = "needs root on Linux"
		} else if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
			t.Fatal(err)
		}
		cmd := NewServerCommand()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || cli.ExitCodeOf(err) != cli.ExitUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
