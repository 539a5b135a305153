package dashboard

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

func TestLimitsInWords(t *testing.T) {
	resolved, err := json.Marshal(&config.Job{Budget: 60 * market.Dollar,
		Limits: config.Limits{PerHour: 35 * market.Dollar / 10, OverHour: config.LimitStop, OverBudget: config.LimitWarn}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, job string
		paused    bool
		want      string
	}{
		{"no job", ``, false, ""},
		{"no limits", `{"budget":"0","limits":{"per_hour":"0","over_hour":"pause"}}`, false, ""},
		{"a budget", `{"budget":"$60"}`, false, "$15.00 spent of a budget of $60.00 (25 %; above it: stop)"},
		{"a rate", `{"limits":{"per_hour":"3.5"}}`, true, "$1.25 an hour of $3.50 (above it: shrink), paused now"},
		{"as a journal has it", string(resolved), false,
			"$15.00 spent of a budget of $60.00 (25 %; above it: warn); $1.25 an hour of $3.50 (above it: stop)"},
	} {
		if got := promiseOf([]byte(c.job)).limits(15*market.Dollar, 125*market.Dollar/100, c.paused); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

// The page of a run has its limits in a card; page and list show "paused" instead of "running".
func TestLimitsAndPauseOnPages(t *testing.T) {
	root := t.TempDir()
	story := promising(t)[:300]
	hold(t, write(t, root, "demo-1", story))
	hold(t, write(t, root, "demo-2", append(story, journal.Entry{T: story[299].T.Add(time.Second), Kind: journal.Budget, To: journal.Paused,
		USD: "4", Why: "the machines cost $4.00 an hour"})))
	b, server := boardWith(t, root, clockOf(story), nil)
	await(t, b, 2)
	list := get(t, server, "/", http.StatusOK)
	for name, paused := range map[string]bool{"demo-1": false, "demo-2": true} {
		page := get(t, server, "/runs/"+name, http.StatusOK)
		for _, want := range []string{"<dt>Limits</dt>", "spent of a budget of $60.00 (", "an hour of $3.50 (above it: shrink)"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not on the page of %s", want, name)
			}
		}
		_, row, _ := strings.Cut(list, `id="run-`+name)
		row, _, _ = strings.Cut(row, "</tr>")
		badge := `<span class="outcome running">running</span>`
		if paused {
			badge = `<span class="outcome paused">paused</span>`
		}
		for where, text := range map[string]string{"page": page, "list": row} {
			if !strings.Contains(text, badge) || strings.Contains(text, "paused: the machines cost $4.00 an hour") != paused {
				t.Errorf("the %s of %s does not say %s", where, name, badge)
			}
		}
		if strings.Contains(page, "paused now") != paused {
			t.Errorf("the card of %s is wrong about the pause", name)
		}
	}
}
