package run

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/provisioner"
)

// A submitted job whose upload was changed on the job server's disk is refused before any of it is read, whether it is run or planned.
func TestChangedInputIsNotRun(t *testing.T) {
	t.Chdir(t.TempDir())
	root, err := filepath.Abs("inputs")
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("1,1,1\n")))
	data := filepath.Join(root, strings.Repeat("0", 64), sum, "ratings.csv")
	text := "name: x\ncloud: local\nresources: {count: 1, any_of: [{type: c3.large}]}\ntrain: {app: mf, clocks: 1, data: " + data + "}\n" +
		"local: {prices: " + data + ", catalog: " + data + ", start: 2014-04-01T00:00:00Z}\n"
	for path, text := range map[string]string{data: "2,2,2\n", "job.yaml": text} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(jobmanager.InputsVariable, root)
	plan := NewPlanCommand()
	plan.SetArgs([]string{"job.yaml"})
	plan.SetOut(io.Discard)
	plan.SetErr(io.Discard)
	for what, err := range map[string]error{
		"run":  runJob(context.Background(), RunOptions{Job: JobSource{File: "job.yaml"}, Yes: true}, strings.NewReader(""), io.Discard),
		"plan": plan.Execute(),
	} {
		if err == nil || !strings.Contains(err.Error(), "ratings.csv is not what was uploaded") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A resumed run of a job server that is denied at once waits; a run that is denied from the start is the job's fault.
func TestResumedRunThatIsDeniedWaits(t *testing.T) {
	t.Setenv(jobmanager.InputsVariable, t.TempDir())
	denied := fmt.Errorf("looking for machines: %w", provisioner.ErrDenied)
	if code, _ := exitcode.Of(NotTheJobs(denied, true)); code != jobmanager.HostExit {
		t.Errorf("resumed: exit code %d", code)
	}
	if code, _ := exitcode.Of(NotTheJobs(denied, false)); code == jobmanager.HostExit {
		t.Errorf("a first start: exit code %d", code)
	}
}
