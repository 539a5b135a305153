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

// Programs of one group could read what is all groups': they do not run as the job server's user.
func TestGroupsAndProgramsOnTheHostAreRefused(t *testing.T) {
	groups := filepath.Join(t.TempDir(), "groups.yaml")
	if err := os.WriteFile(groups, []byte("vision: {quota: {jobs: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := serverOptions{home: t.TempDir(), groupFile: groups, allow: []string{"programs"}, maxRunning: 1, maxQueued: 1, maxUpload: 1, over: "stop"}
	o.door.Address = "localhost:0"
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a job server that begins ends at once
	if err := serveJobs(ctx, o, io.Discard, io.Discard); err == nil || cli.ExitCodeOf(err) != cli.ExitUsage || !strings.Contains(err.Error(), "a job server for each group") {
		t.Errorf("%v", err)
	}
	o.allow = nil
	if err := serveJobs(ctx, o, io.Discard, io.Discard); err != nil {
		t.Errorf("without programs: %v", err)
	}
}
