package dashboard

import (
	"github.com/tierml/tierml/watch/shared"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
