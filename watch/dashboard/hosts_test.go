package dashboard

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/watch/shared"
	"github.com/tierml/tierml/watch/shared/sharedtest"
)

// Shared hosts have their own gauges: two full hosts, and a fifth job that waits for two slots.
func TestMetricsOfSharedHosts(t *testing.T) {
	root := t.TempDir()
	shareHosts(t, root, "a-1", "b-1", "c-1", "d-1", "e-1")
	b, server := boardWith(t, root, time.Now, nil)
	await(t, b, 1)
	metrics := get(t, server, "/metrics", 200)
	for _, want := range []string{`tierml_hosts_vcpus{run="shared-1",state="held",tier="transient"} 8`, `tierml_hosts_vcpus{run="shared-1",state="free",tier="reliable"} 0`,
		`tierml_hosts_memory_bytes{run="shared-1",state="held",tier="reliable"} 1.610612736e+10`, `tierml_hosts_slots{run="shared-1",state="held"} 8`,
		`tierml_hosts_slots{run="shared-1",state="waiting"} 2`, `tierml_hosts_jobs{run="shared-1"} 5`, `tierml_hosts_longest_wait_seconds{run="shared-1"} 6`,
		`tierml_hosts_idle_dollars_per_hour{run="shared-1"} 0`, `tierml_hosts_idle_dollars{run="shared-1"} 0.`, `tierml_hosts_dollars_per_hour{run="shared-1"} 0.58`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
}

// The page of shared hosts shows the serving load: two measured jobs of five cores each on a host of eight lose a fifth of their speed, and
// nothing is known about the others.
func TestThePageOfHostsHasServing(t *testing.T) {
	root := t.TempDir()
	shareHosts(t, root, "a-1", "b-1", "c-1")
	b, server := boardWith(t, root, time.Now, nil)
	await(t, b, 1)
	text := get(t, server, "/hosts", 200)
	for want, times := range map[string]int{`<td data-is="cores that serve" class="n">10.00</td>`: 1, `<td data-is="cores that serve" class="n">5.00</td>`: 2,
		`<td data-is="expected loss" class="n">20 %</td>`: 2, `<td data-is="cores that serve" class="n"></td>`: 2, `<td data-is="expected loss" class="n"></td>`: 1,
		`<tr><th scope="row">nobody: idle</th>`: 1, `aria-label="Paid so far"`: 1} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q is %d times on the page, want %d", want, n, times)
		}
	}
}

// The page of the hosts' own run treats its machines as having no work of their own: no stage, no clock, no saving.
func TestPageOfTheHostsRun(t *testing.T) {
	root := t.TempDir()
	shareHosts(t, root, "a-1", "b-1")
	b, server := boardWith(t, root, time.Now, nil)
	await(t, b, 1)
	text := get(t, server, "/runs/shared-1", 200)
	for _, want := range []string{`<dt><a href="/hosts">Hosts</a></dt>`, `<th scope="col" class="n">working</th>`, `aria-label="Latest events"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, bad := range []string{"<dt>Stage</dt>", "<dt>Clock</dt>", "On-demand equivalent", "0 roll-backs"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

// shareHosts makes jobs share the hosts of a run in progress.
func shareHosts(t *testing.T, root string, jobs ...string) {
	t.Helper()
	dir := filepath.Join(root, "shared-1")
	if err := sharedtest.Write(dir, jobs...); err != nil {
		t.Fatal(err)
	}
	hold(t, dir)
}

// While no host can be had, the page of shared hosts says why, and a job that waits for its slots has paid nothing: not the hours since
// its launches.
func TestJobsThatWaitForHosts(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "shared-1")
	if err := sharedtest.Write(dir, "a-1"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")[:2] // no launches
	why, err := json.Marshal(journal.Entry{T: time.Now().UTC(), Kind: journal.LaunchFailed, Pool: "ec2/us-west-1/us-west-1a/c3.2xlarge/spot", Why: "no capacity <b>"})
	book, failed := os.ReadFile(filepath.Join(dir, desk.BookFile))
	asked := slices.DeleteFunc(strings.SplitAfter(string(book), "\n"), func(line string) bool { return strings.Contains(line, `"placed"`) })
	job := arrayStory(t)[:6]
	d, bad := job[0].StartDetails()
	d.Billed, d.Clock = true, clock.Real().String()
	packed, worse := journal.Pack(d)
	job[0].Details = packed
	if err := errors.Join(err, failed, bad, worse, os.WriteFile(filepath.Join(dir, rundir.JournalFile), []byte(strings.Join(lines, "")+string(why)+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, desk.BookFile), []byte(strings.Join(asked, "")), 0o600)); err != nil {
		t.Fatal(err)
	}
	hold(t, dir)
	hold(t, write(t, root, "a-1", job))
	b, server := boardWith(t, root, time.Now, nil)
	await(t, b, 2)
	for path, want := range map[string]string{"/hosts": "<p>No host is held: no capacity &lt;b&gt;.</p>", "/runs/a-1": `<dt>Cost so far</dt><dd>$0.00</dd><dd class="small">its share of the shared hosts; `} {
		if page := get(t, server, path, 200); !strings.Contains(page, want) {
			t.Errorf("%s has no %s:\n%.6000s", path, want, page)
		}
	}
}

// A running job on shared hosts costs its share, as in tierml hosts ps, not the hours that its slots have begun.
func TestJobsOnSharedHostsCostTheirShare(t *testing.T) {
	rows := []Summary{{Run: "a-1", State: "running", Spent: "3.8", Saved: "1", PerHour: "2"}, {Run: "a-2", State: "running", Spent: "3.8"}}
	Place(rows, shared.View{
		Jobs: []shared.Tenant{{Job: "a-1-01234567", Hosts: []string{"i-1"}, PerHour: "0.1"}, {Job: "a-2-01234567", Hosts: []string{"i-1"}, PerHour: "?"}},
		Bill: []shared.Pay{{Job: "a-1-01234567", USD: "0.28"}, {Job: "a-2-01234567", USD: "?"}},
	})
	if r := rows[0]; r.Spent != "0.28" || r.Saved != "4.52" || r.PerHour != "0.1" || len(r.On) != 1 {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Spent != "3.8" || len(r.On) != 1 {
		t.Errorf("%+v", r)
	}
}
