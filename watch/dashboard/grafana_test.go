package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// grafana is the part of a Grafana dashboard that tests use:
// https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
type grafana struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type, Query string
			Datasource        struct{ Type, UID string }
		}
	}
	Panels []struct {
		ID          int
		Title, Type string
		Description string
		Datasource  struct{ Type, UID string }
		GridPos     struct{ X, Y, W, H int }
		FieldConfig struct {
			Defaults struct{ Unit string }
		}
		Targets []struct {
			Datasource                struct{ Type, UID string }
			Expr, LegendFormat, RefID string
		}
	}
}

func readGrafana(t *testing.T) grafana {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "tierml.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g grafana
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// The dashboard for Grafana is well made: it has what Grafana's own linter requires (units, descriptions, datasources as variables, one run
// or all), no overlapping panels, and no duplicate references.
func TestGrafanaDashboard(t *testing.T) {
	g := readGrafana(t)
	if g.UID == "" || g.Title == "" || g.SchemaVersion < 36 || len(g.Panels) < 10 {
		t.Errorf("uid %q, title %q, schema %d, %d panels", g.UID, g.Title, g.SchemaVersion, len(g.Panels))
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range g.Panels {
		if ids[p.ID] || p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d, %q, is not complete: %+v", p.ID, p.Title, p)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q and %q are at the same place, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Datasource.UID != "${datasource}" || target.LegendFormat == "" {
				t.Errorf("%q: target %+v", p.Title, target)
			}
			refs[target.RefID] = true
			if strings.Contains(target.Expr, "tierml_run_") != strings.Contains(target.Expr, `run=~"$run"`) && !strings.Contains(target.Expr, "tierml_controller_") &&
				!strings.Contains(target.Expr, `run=~"$run"`) {
				t.Errorf("%q does not keep to the runs that are asked for: %s", p.Title, target.Expr)
			}
		}
	}
}

// everyPanelHasData checks that each panel's queries return data from a Prometheus that has scraped a run, when queried as Grafana does.
func (p *promServer) everyPanelHasData(t *testing.T) {
	t.Helper()
	for _, panel := range readGrafana(t).Panels {
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$run", ".*", "$__rate_interval", "5m", "$__range", "1h").Replace(target.Expr)
			p.until("data for the panel "+panel.Title+": "+query, func() bool {
				var answer struct {
					Status string
					Data   struct{ Result []struct{ Values [][2]any } }
				}
				now := time.Now()
				p.ask("/api/v1/query_range", url.Values{"query": {query}, "step": {"0.1"}, // a series may exist for only two scrapes
					"start": {now.Add(-10 * time.Minute).Format(time.RFC3339)}, "end": {now.Format(time.RFC3339)}}, &answer)
				return slices.ContainsFunc(answer.Data.Result, func(r struct{ Values [][2]any }) bool {
					return slices.ContainsFunc(r.Values, func(v [2]any) bool { return v[1] != "NaN" })
				})
			})
		}
	}
}

// Every alert has a test in which it fires, and one in which it does not.
func TestEveryAlertIsTested(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tests := read("alerts_test.yml")
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(read("alerts.yml"), -1) {
		rings := regexp.MustCompile(`alertname: ` + m[1] + `\n\s+exp_alerts:\n`).MatchString(tests)
		quiet := regexp.MustCompile(`alertname: ` + m[1] + `, exp_alerts: \[\]`).MatchString(tests)
		if !rings || !quiet {
			t.Errorf("%s: a test by which it fires: %v; by which it does not: %v", m[1], rings, quiet)
		}
	}
}

// Prometheus's own checks of a job server's metrics: `make test-metrics` runs it.
func TestPromtoolOfAServer(t *testing.T) {
	promtool := os.Getenv("TIERML_PROMTOOL")
	if promtool == "" {
		t.Skip("TIERML_PROMTOOL is not set; `make test-metrics` sets it to Prometheus's promtool")
	}
	root := t.TempDir()
	story := promising(t)[:300]
	hold(t, write(t, root, "demo-1", story))
	b, server := boardWith(t, root, clockOf(story), func() Manager { return Manager{Budget: 1, PerHour: 1} })
	await(t, b, 1)
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(get(t, server, "/metrics", http.StatusOK))
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}
