package planner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
)

// job loads a job with the given resources and the rest as usual.
func job(t *testing.T, resources, rest string) *config.Job {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"r.csv", "p.csv", "c.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("name: demo\ncloud: local\nresources: %s\ntrain: {app: mf, data: r.csv, clocks: 1}\n%s\n", resources, rest)
	if !strings.Contains(rest, "local:") {
		text += "local: {prices: p.csv, catalog: c.csv, start: 2014-04-01T00:00:00Z}\n"
	}
	path := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func offers() []Offer {
	elsewhere := pool("c3.xlarge")
	elsewhere.Zone = "us-west-1c"
	return []Offer{
		{Pool: elsewhere, Type: small, History: market.Constant(40_000_000)},
		{Pool: pool("c3.xlarge"), Type: small, History: market.Constant(30_000_000)},
		{Pool: pool("c3.2xlarge"), Type: large, History: market.Constant(90_000_000)},
	}
}

func catalog(t *testing.T) *market.Catalog {
	t.Helper()
	c, err := market.ReadCatalog(strings.NewReader("region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n" +
		"us-west-1,c3.xlarge,4,7.5,0.24\nus-west-1,c3.2xlarge,8,15,0.48\nus-west-1,m3.medium,1,3.75,0.07\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		resources, rest string
		pools           string // zone, type and highest price of each
		reliable        string
	}{
		"by type": {"{count: 2, any_of: [{type: c3.2xlarge}]}", "",
			"us-west-1a c3.2xlarge 0", "us-west-1a c3.2xlarge x1"},
		"by need": {"{count: 2, any_of: [{cpus: 4+, memory: 7GB+, arch: x86_64}]}", "",
			"us-west-1a c3.2xlarge 0, us-west-1a c3.xlarge 0, us-west-1c c3.xlarge 0", "us-west-1a c3.xlarge x1"},
		"exact need": {"{vcpu: 8, any_of: [{cpus: 4}]}", "",
			"us-west-1a c3.xlarge 0, us-west-1c c3.xlarge 0", "us-west-1a c3.xlarge x1"},
		"zone": {"{count: 2, zones: [us-west-1c], any_of: [{cpus: 1+}]}", "reliable: {type: m3.medium, count: 3}",
			"us-west-1c c3.xlarge 0", "us-west-1c m3.medium x3"},
		"highest price: the first entry that admits": {
			"{count: 2, zones: [us-west-1a], max_price: 0.2, any_of: [{type: c3.xlarge, max_price: 0.1}, {cpus: 4+}]}", "",
			"us-west-1a c3.2xlarge 0.2, us-west-1a c3.xlarge 0.1", "us-west-1a c3.xlarge x1"},
		"reliable elsewhere": {"{count: 2, any_of: [{type: c3.2xlarge}]}", "reliable: {zone: us-west-1c}",
			"us-west-1a c3.2xlarge 0", "us-west-1c c3.2xlarge x1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(job(t, c.resources, c.rest), offers(), catalog(t))
			if err != nil {
				t.Fatal(err)
			}
			var pools []string
			for _, p := range got.Pools {
				if !p.OnDemand() {
					pools = append(pools, fmt.Sprintf("%s %s %s", p.Pool.Zone, p.Type.Name, p.MaxPrice))
				}
			}
			if all := strings.Join(pools, ", "); all != c.pools {
				t.Errorf("pools %q, want %q", all, c.pools)
			}
			r := got.Reliable
			if s := fmt.Sprintf("%s %s x%d", r.Pool.Zone, r.Type.Name, r.Count); s != c.reliable || r.Pool.Class != market.OnDemand || r.Pool.Type != r.Type.Name {
				t.Errorf("reliable %q in %s, want %q", s, r.Pool, c.reliable)
			}
		})
	}
}

func TestResolveCapacity(t *testing.T) {
	j := job(t, "{count: 2, any_of: [{type: c3.2xlarge}]}",
		"local: {prices: p.csv, catalog: c.csv, start: 2014-04-01T00:00:00Z, capacity: {c3.2xlarge: 3}}")
	got, err := Resolve(j, offers(), catalog(t))
	if err != nil || len(got.Capacity) != 1 || got.Capacity[pool("c3.2xlarge")] != 3 {
		t.Errorf("capacity %v, error %v", got.Capacity, err)
	}
}

func TestResolveFaults(t *testing.T) {
	for name, c := range map[string]struct{ resources, rest, want string }{
		"no such type":  {"{count: 2, any_of: [{type: c4.large}]}", "", "c4.large has no prices in this market; there are prices of c3.2xlarge, c3.xlarge"},
		"none so small": {"{count: 2, any_of: [{memory: 4GB}]}", "", "no machine on sale meets this need; write memory: 4GB+ for larger machines, too; on sale are c3.2xlarge"},
		"no such need":  {"{count: 2, any_of: [{cpus: 64+}]}", "", "no machine on sale meets this need; on sale are c3.2xlarge (cpus: 8, memory: 15GB, arch: x86_64), c3.xlarge"},
		"no such zone":  {"{count: 2, zones: [us-east-1a], any_of: [{cpus: 1+}]}", "", "us-east-1a has no prices in this market; there are prices of us-west-1a, us-west-1c"},
		"no such reliable type": {"{count: 2, any_of: [{cpus: 1+}]}", "reliable: {type: c4.large}",
			"reliable.type: c4.large is not in the catalog of us-west-1; write a type that is, such as c3.2xlarge"},
		"commitment for workers, too": {"{count: 2, any_of: [{cpus: 1+}]}", "reliable: {type: c3.xlarge, committed: 0.1}",
			"reliable.committed: workers may be c3.xlarge on demand, too"},
		"no such reliable zone": {"{count: 2, any_of: [{cpus: 1+}]}", "reliable: {zone: us-west-1b}", "reliable.zone: us-west-1b has no prices"},
		"capacity of nothing": {"{count: 2, any_of: [{cpus: 1+}]}",
			"local: {prices: p.csv, catalog: c.csv, start: 2014-04-01T00:00:00Z, capacity: {c9.xlarge: 3}}", "local.capacity.c9.xlarge: c9.xlarge has no prices"},
	} {
		_, err := Resolve(job(t, c.resources, c.rest), offers(), catalog(t))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// TestMeasuredCores: for programs measured in a past run, a machine does as much as its cores allow, up to what they use.
func TestMeasuredCores(t *testing.T) {
	for _, c := range []struct{ cores, small, large float64 }{{0, 4, 4}, {1, 1, 1}, {.02, .02, .02}, {6, 4, 6}, {20, 4, 8}} {
		j := job(t, "{count: 1, any_of: [{type: c3.xlarge}, {type: c3.2xlarge}]}", "")
		j.Run = "x"
		j.Use(c.cores)
		got, err := Resolve(j, offers(), catalog(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range got.Pools {
			want := c.small
			if p.Type.Name == "c3.2xlarge" {
				want = c.large
			}
			if p.Type.WorkRate() != want {
				t.Errorf("%v cores: %s counts %v, want %v", c.cores, p.Type.Name, p.Type.WorkRate(), want)
			}
		}
	}
}
