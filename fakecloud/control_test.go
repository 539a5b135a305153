package fakecloud

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

func (c *testCloud) control(method, path, body string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.Endpoint()+"/_control/"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestControl(t *testing.T) {
	c := run(t, func(c *Config) {
		c.Script = Script{{Offset: 30 * time.Minute, Do: Rebalance, Target: "all"}}
		c.Seed = 3
	})
	ids := c.launch(3)
	if code, body := c.control("GET", "healthz", ""); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %s", code, body)
	}
	var now struct{ Mapping string }
	_, body := c.control("GET", "clock", "")
	if err := json.Unmarshal([]byte(body), &now); err != nil || now.Mapping != c.config.Clock.String() {
		t.Errorf("clock: %s, %v", body, err)
	}
	var done struct{ Targets []string }
	code, body := c.control("POST", "do", `{"steps": ["at 20m throttle for 1m", "kill newest", "evict oldest"]}`)
	if err := json.Unmarshal([]byte(body), &done); err != nil || code != http.StatusOK ||
		strings.Join(done.Targets, " ") != ids[2]+" "+ids[0] {
		t.Errorf("do: %d %s, %v", code, body, err)
	}
	c.awaitState(ids[2], "terminated")
	c.awaitState(ids[0], "terminated")
	if got := c.instance(ids[2]); got.Reason != "Server.InternalError" || got.By != market.ByProvider {
		t.Errorf("killed: %+v", got)
	}
	if got := c.instance(ids[0]); got.Reason != "Server.SpotInstanceTermination" {
		t.Errorf("evicted: %+v", got)
	}
	if _, body := c.control("GET", "script", ""); strings.Join(strings.Fields(body), " ") != `[ "at 20m throttle for 1m", "at 30m rebalance all" ]` {
		t.Errorf("script: %s", body)
	}
	var bill Bill
	if _, body := c.control("GET", "bill", ""); json.Unmarshal([]byte(body), &bill) != nil || len(bill.Lines) != 3 || bill.Total != usd(t, "0.05") {
		t.Errorf("bill: %s", body)
	}
	for _, wrong := range []string{`{"step": "kill"}`, `{"stp": "kill all"}`, `{"step": "no-capacity of x9.huge for 1h"}`, `{"step": "kill i-0"}`, `nonsense`} {
		if code, body := c.control("POST", "do", wrong); code != http.StatusBadRequest || !strings.Contains(body, "error") {
			t.Errorf("%s: %d %s", wrong, code, body)
		}
	}
	resp, err := http.Post(c.Endpoint()+"/_control/do", "text/plain", strings.NewReader(`{"step": "kill all"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a form of a web page: %d", resp.StatusCode)
	}
}
