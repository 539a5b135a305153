package config

import (
	"strings"
	"testing"
	"time"
)

const gceJob = `name: a
cloud: local
provider: gce
resources: {count: 1, any_of: [{type: n2-standard-4}]}
train: {app: mf, data: data/ratings.csv, clocks: 1}
local:
  prices: data/prices.csv
  catalog: data/catalog.csv
  start: 2021-01-01T00:00:00Z
`

// TestProvider: with provider: gce a job has that provider's usual terms, unless it says otherwise.
func TestProvider(t *testing.T) {
	for _, c := range []struct {
		name, text string
		rules      string
		notice     time.Duration
		fault      string
	}{
		{"usual terms", gceJob, "gce-spot", 30 * time.Second, ""},
		{"own terms", gceJob + "  rules: gce-preemptible+disk=20x0.08\n  notice: 2m\n", "gce-preemptible+disk=20x0.08", 2 * time.Minute, ""},
		{"rules of EC2", gceJob + "  rules: ec2-now\n", "", 0, "local.rules: ec2-now bills EC2's machines; write gce-spot or gce-preemptible"},
		{"nobody", strings.Replace(gceJob, "provider: gce", "provider: azure", 1), "", 0, "provider:"},
		{"ec2", strings.Replace(gceJob, "provider: gce", "provider: ec2", 1), "ec2-2017", 4 * time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			job, err := parse("testdata/job.yaml", []byte(c.text), noEnvironment)
			switch {
			case c.fault != "":
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("got %v, want %q", err, c.fault)
				}
			case err != nil:
				t.Error(err)
			case job.Local.Rules != c.rules || job.Local.Notice != c.notice:
				t.Errorf("rules %s and notice %s, want %s and %s", job.Local.Rules, job.Local.Notice, c.rules, c.notice)
			}
		})
	}
}
