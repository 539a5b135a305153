package computeapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// backend is a region whose time stands still until it is moved.
type backend struct {
	region *region.Region
	now    time.Time
}

func (b *backend) Do(f func(*region.Region, time.Time)) { f(b.region, b.now) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newHandler(t *testing.T) (*Handler, *backend) {
	t.Helper()
	pool := market.Pool{Provider: "gce", Region: "us-central1", Zone: "us-central1-a", Type: "n2-standard-2", Class: market.Spot}
	r, err := region.New(region.Config{Provider: region.GCE, Name: "us-central1", Zones: []string{"us-central1-b"}, Notice: 30 * time.Second,
		Types:    []region.Type{{InstanceType: market.InstanceType{Name: "n2-standard-2", VCPU: 2, MemoryMiB: 8192, Arch: "x86_64", OnDemand: market.Dollar}}},
		Spot:     map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 5)},
		Capacity: map[market.Pool]int{pool: 3}, Limits: region.Limits{OnDemandInstances: 1}})
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{r, start}
	return New(b, slog.New(slog.DiscardHandler), Lengths{Operation: time.Second, Market: func(d time.Duration) time.Duration { return d }}), b
}

// ask makes one call and returns the answer, including refusals.
func ask(t *testing.T, h *Handler, method, path, body string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/compute/v1/projects/p/"+path, strings.NewReader(body)))
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
	}
	return w.Code, answer
}

// reason returns why a call was refused.
func reason(answer map[string]any) string {
	e, _ := answer["error"].(map[string]any)
	errors, _ := e["errors"].([]any)
	if len(errors) == 0 {
		return ""
	}
	return errors[0].(map[string]any)["reason"].(string)
}

const zone = "zones/us-central1-a"

// machine returns the body of an insert; extra goes before the rest.
func machine(name, extra string) string {
	return fmt.Sprintf(`{%s"name": %q, "machineType": "zones/us-central1-a/machineTypes/n2-standard-2", "networkInterfaces": [{}],
  "disks": [{"boot": true, "initializeParams": {"sourceImage": "i"}}]}`, extra, name)
}

const spot = `"scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}, `

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		reason     string
	}{
		{"good", machine("m-0", spot), 200, ""},
		{"unknown field", machine("m-0", `"machinetype": "x", `+`"nonsense": 1, `), 400, "badRequest"},
		{"bad name", machine("M_0", spot), 400, "invalid"},
		{"bad label", machine("m-0", `"labels": {"a": "B"}, `), 400, "invalid"},
		{"key of a label", machine("m-0", `"labels": {"1a": "b"}, `), 400, "invalid"},
		{"unknown type", strings.Replace(machine("m-0", ""), "n2-standard-2", "n3", 1), 404, "notFound"},
		{"type of another zone", strings.Replace(machine("m-0", ""), "us-central1-a/m", "us-central1-b/m", 1), 400, "invalid"},
		{"spot that migrates", machine("m-0", `"scheduling": {"provisioningModel": "SPOT", "onHostMaintenance": "MIGRATE"}, `), 400, "invalid"},
		{"spot that comes back", machine("m-0", `"scheduling": {"provisioningModel": "SPOT", "automaticRestart": true}, `), 400, "invalid"},
		{"too short a run", machine("m-0", `"scheduling": {"maxRunDuration": {"seconds": "5"}, "instanceTerminationAction": "DELETE"}, `), 400, "invalid"},
		{"a run without action", machine("m-0", `"scheduling": {"maxRunDuration": {"seconds": "50"}}, `), 400, "invalid"},
		{"preemptible with a run", machine("m-0", `"scheduling": {"preemptible": true, "instanceTerminationAction": "STOP", "maxRunDuration": {"seconds": "50"}}, `), 400, "invalid"},
		{"standard with an action", machine("m-0", `"scheduling": {"instanceTerminationAction": "DELETE"}, `), 400, "invalid"},
		{"same key twice", machine("m-0", `"metadata": {"items": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}, `), 400, "invalid"},
		{"no network", strings.Replace(machine("m-0", ""), "[{}]", "[]", 1), 400, "invalid"},
	} {
		h, _ := newHandler(t)
		if status, answer := ask(t, h, "POST", zone+"/instances", c.body); status != c.status || reason(answer) != c.reason {
			t.Errorf("%s: %d %v", c.name, status, answer)
		}
	}
}

// TestOperation: an operation takes its time; the same request id returns it again, and a taken name is a conflict.
func TestOperation(t *testing.T) {
	h, b := newHandler(t)
	const id = "?requestId=12345678-1234-8234-8234-123456789abc"
	_, first := ask(t, h, "POST", zone+"/instances"+id, machine("m-0", spot))
	_, again := ask(t, h, "POST", zone+"/instances"+id, machine("m-0", spot))
	if first["status"] != "RUNNING" || first["name"] != again["name"] {
		t.Errorf("got %v, then %v", first, again)
	}
	if status, answer := ask(t, h, "POST", zone+"/instances", machine("m-0", spot)); status != 409 || reason(answer) != "alreadyExists" {
		t.Errorf("a taken name: %d %v", status, answer)
	}
	if status, answer := ask(t, h, "POST", zone+"/instances?requestId=x", machine("m-1", spot)); status != 400 {
		t.Errorf("a request id that is no UUID: %v", answer)
	}
	b.now = b.now.Add(time.Second)
	_, done := ask(t, h, "POST", zone+"/operations/"+first["name"].(string)+"/wait", "")
	if done["status"] != "DONE" || done["progress"] != 100.0 || done["error"] != nil {
		t.Errorf("got %v", done)
	}
}

// TestShortOfMachines: a bulkInsert creates as many as are available, and its operation reports what was lacking; limits are different.
func TestShortOfMachines(t *testing.T) {
	h, b := newHandler(t)
	body := `{"count": "5", "minCount": "1", "perInstanceProperties": {"m-0": {}, "m-1": {}, "m-2": {}, "m-3": {}, "m-4": {}},
  "instanceProperties": {"machineType": "n2-standard-2", "networkInterfaces": [{}], "disks": [{"boot": true, "initializeParams": {"sourceImage": "i"}}],
  "scheduling": {"provisioningModel": "SPOT"}}}`
	failure := func(o map[string]any) string {
		t.Helper()
		_, o = ask(t, h, "GET", zone+"/operations/"+o["name"].(string), "")
		e, _ := o["error"].(map[string]any)
		if e == nil {
			return ""
		}
		return e["errors"].([]any)[0].(map[string]any)["code"].(string)
	}
	_, o := ask(t, h, "POST", zone+"/instances/bulkInsert", body)
	b.now = b.now.Add(time.Second)
	if code := failure(o); code != "ZONE_RESOURCE_POOL_EXHAUSTED" {
		t.Errorf("failure %q", code)
	}
	if _, l := ask(t, h, "GET", zone+"/instances", ""); len(l["items"].([]any)) != 3 {
		t.Errorf("listed %v, want three", l)
	}
	for n, want := range []string{"", "QUOTA_EXCEEDED"} {
		_, o := ask(t, h, "POST", zone+"/instances", machine(fmt.Sprintf("s-%d", n), ""))
		b.now = b.now.Add(time.Second)
		if code := failure(o); code != want {
			t.Errorf("standard machine %d: failure %q, want %q", n, code, want)
		}
	}
}

// TestPreemption: a preempted machine is stopping, then gone from the lists; the provider's operation reports it.
func TestPreemption(t *testing.T) {
	h, b := newHandler(t)
	ask(t, h, "POST", zone+"/instances", machine("m-0", spot))
	ask(t, h, "POST", zone+"/instances", machine("m-1", `"scheduling": {"provisioningModel": "SPOT"}, `))
	if _, i := ask(t, h, "GET", zone+"/instances/m-0", ""); i["status"] != "RUNNING" || i["creationTimestamp"] != "2026-03-01T05:00:00.000-07:00" {
		t.Errorf("got %v", i)
	}
	if err := b.region.Evict(b.now, []string{"m-0", "m-1"}); err != nil {
		t.Fatal(err)
	}
	if _, i := ask(t, h, "GET", zone+"/instances/m-0", ""); i["status"] != "STOPPING" {
		t.Errorf("during its notice: %v", i)
	}
	b.now = b.now.Add(30 * time.Second)
	b.region.Advance(b.now)
	for _, name := range []string{"m-0", "m-1"} {
		b.region.Gone(b.now, name)
	}
	if status, _ := ask(t, h, "GET", zone+"/instances/m-0", ""); status != 404 {
		t.Errorf("after its end it is there: %d", status)
	}
	if _, i := ask(t, h, "GET", zone+"/instances/m-1", ""); i["status"] != "TERMINATED" {
		t.Errorf("without an action it should be stopped: %v", i)
	}
	ask(t, h, "DELETE", zone+"/instances/m-1", "")
	if status, _ := ask(t, h, "GET", zone+"/instances/m-1", ""); status != 404 {
		t.Errorf("a stopped machine that was deleted is there: %d", status)
	}
	_, l := ask(t, h, "GET", zone+"/operations?filter="+strings.ReplaceAll(`targetLink eq ".*/m-0" AND operationType = "compute.instances.preempted"`, " ", "%20"), "")
	items, _ := l["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("operations %v", l)
	}
	o := items[0].(map[string]any)
	if o["user"] != "system" || o["status"] != "DONE" || o["statusMessage"] != "Instance was preempted." || o["endTime"] != "2026-03-01T05:00:30.000-07:00" {
		t.Errorf("got %v", o)
	}
}

// TestPages: lists come in pages; in an aggregated one, zones without items say so.
func TestPages(t *testing.T) {
	h, _ := newHandler(t)
	for n := range 3 {
		ask(t, h, "POST", zone+"/instances", machine(fmt.Sprintf("m-%d", n), spot+fmt.Sprintf(`"labels": {"n": "%d"}, `, n%2)))
	}
	var names []string
	token := ""
	for range 3 {
		_, l := ask(t, h, "GET", "aggregated/instances?maxResults=1&pageToken="+token, "")
		scopes := l["items"].(map[string]any)
		if warning := scopes["zones/us-central1-b"].(map[string]any)["warning"].(map[string]any); warning["code"] != "NO_RESULTS_ON_PAGE" {
			t.Errorf("empty zone: %v", warning)
		}
		for _, i := range scopes["zones/us-central1-a"].(map[string]any)["instances"].([]any) {
			names = append(names, i.(map[string]any)["name"].(string))
		}
		token, _ = l["nextPageToken"].(string)
	}
	if strings.Join(names, " ") != "m-0 m-1 m-2" || token != "" {
		t.Errorf("got %v, and after the last page %q", names, token)
	}
	_, l := ask(t, h, "GET", zone+"/instances?filter=labels.n%20=%20%220%22", "")
	if len(l["items"].([]any)) != 2 {
		t.Errorf("filtered: %v", l)
	}
	if status, _ := ask(t, h, "GET", zone+"/instances?filter=labels.n%20is%200", ""); status != http.StatusBadRequest {
		t.Errorf("nonsense for a filter: %d", status)
	}
}

func TestThrottled(t *testing.T) {
	h, b := newHandler(t)
	b.region.Throttle(b.now, time.Minute)
	if status, answer := ask(t, h, "GET", zone+"/instances", ""); status != 403 || reason(answer) != "rateLimitExceeded" {
		t.Errorf("%d %v", status, answer)
	}
}

func TestFiltersKnowTheirFields(t *testing.T) {
	h, _ := newHandler(t)
	ask(t, h, "POST", zone+"/instances", machine("m-0", spot+`"labels": {"owner": "ann"}, `))
	for filter, want := range map[string]int{
		`labels.owner = ann`: 1, `labels.owner != ann`: 0, `labels.team != x`: 1, `scheduling.preemptible = true`: 1, `canIpForward = false`: 1,
		`labels.owner:*`: 1, `labels.team:*`: 0, `labels.owner:nn`: 1, `nonsense:*`: -1, `name eq m-.*`: 1, `scheduling.maxRunDuration.nanos = 5`: 0, `nonsense = x`: -1, `nonsense != x`: -1, `scheduling.nonsense = x`: -1, `disks = x`: -1,
	} {
		status, answer := ask(t, h, "GET", zone+"/instances?filter="+strings.ReplaceAll(filter, " ", "%20"), "")
		items, _ := answer["items"].([]any)
		if want < 0 {
			if status != http.StatusBadRequest || reason(answer) != "invalid" {
				t.Errorf("%s: %d %v", filter, status, answer)
			}
		} else if status != http.StatusOK || len(items) != want {
			t.Errorf("%s: %d, %d machines", filter, status, len(items))
		}
	}
}

func TestDisksNetworksAndSubnetsAreListed(t *testing.T) {
	h, _ := newHandler(t)
	ask(t, h, "POST", zone+"/instances", machine("m-0", spot))
	_, m := ask(t, h, "GET", zone+"/instances/m-0", "")
	source := m["disks"].([]any)[0].(map[string]any)["source"]
	card := m["networkInterfaces"].([]any)[0].(map[string]any)
	for path, want := range map[string]any{zone + "/disks": source, "global/networks": card["network"], "regions/us-central1/subnetworks": card["subnetwork"]} {
		status, answer := ask(t, h, "GET", path, "")
		items, _ := answer["items"].([]any)
		if status != http.StatusOK || len(items) != 1 || items[0].(map[string]any)["selfLink"] != want {
			t.Errorf("%s: %d %v, want %v", path, status, answer, want)
		}
		name := items[0].(map[string]any)["name"].(string)
		if status, one := ask(t, h, "GET", path+"/"+name, ""); status != http.StatusOK || one["selfLink"] != want {
			t.Errorf("%s: %d %v", name, status, one)
		}
		if status, _ := ask(t, h, "GET", path+"/nobody", ""); status != http.StatusNotFound {
			t.Errorf("%s/nobody: %d", path, status)
		}
	}
	if _, answer := ask(t, h, "GET", "aggregated/disks", ""); !strings.Contains(fmt.Sprint(answer), fmt.Sprint(source)) {
		t.Errorf("%v", answer)
	}
	for path, want := range map[string]int{"zones/nowhere/disks": http.StatusBadRequest, "regions/nowhere/subnetworks": http.StatusNotFound} {
		if status, answer := ask(t, h, "GET", path, ""); status != want {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}

func TestBulkInsertByAPattern(t *testing.T) {
	h, _ := newHandler(t)
	properties := strings.NewReplacer(`"name": "m-0", `, "", "zones/us-central1-a/machineTypes/", "").Replace(machine("m-0", spot))
	body := func(p string, count int) string {
		return fmt.Sprintf(`{"count": %d, "namePattern": %q, "instanceProperties": %s}`, count, p, properties)
	}
	if status, answer := ask(t, h, "POST", zone+"/instances/bulkInsert", body("w-##", 2)); status != http.StatusOK {
		t.Fatal(answer)
	}
	for name, want := range map[string]int{"w-01": http.StatusOK, "w-02": http.StatusOK, "w-03": http.StatusNotFound} {
		if status, answer := ask(t, h, "GET", zone+"/instances/"+name, ""); status != want {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	for p, count := range map[string]int{"w": 1, "w-#-#": 1, "v-#": 10} {
		if status, answer := ask(t, h, "POST", zone+"/instances/bulkInsert", body(p, count)); status != http.StatusBadRequest {
			t.Errorf("%s for %d: %d %v", p, count, status, answer)
		}
	}
}

func TestMachineReadsBackWhatItWasGiven(t *testing.T) {
	h, _ := newHandler(t)
	body := strings.Replace(machine("m-0", `"tags": {"items": ["web"]}, "canIpForward": true, `), "[{}]",
		`[{"network": "global/networks/n", "accessConfigs": [{}]}]`, 1)
	if status, answer := ask(t, h, "POST", zone+"/instances", body); status != http.StatusOK {
		t.Fatal(answer)
	}
	_, m := ask(t, h, "GET", zone+"/instances/m-0", "")
	card := m["networkInterfaces"].([]any)[0].(map[string]any)
	access := card["accessConfigs"].([]any)[0].(map[string]any)
	disk := m["disks"].([]any)[0].(map[string]any)
	if card["network"] != "global/networks/n" || card["networkIP"] == nil || access["natIP"] == nil || disk["boot"] != true || disk["source"] == nil ||
		m["canIpForward"] != true || fmt.Sprint(m["tags"].(map[string]any)["items"]) != "[web]" {
		t.Errorf("read back %v", m)
	}
}

func TestMachinesOnDemandStopAndStart(t *testing.T) {
	h, b := newHandler(t)
	ask(t, h, "POST", zone+"/instances", machine("m-0", ""))
	ask(t, h, "POST", zone+"/instances", machine("m-1", spot))
	b.now = b.now.Add(time.Hour)
	if status, answer := ask(t, h, "POST", zone+"/instances/m-1/stop", ""); status != http.StatusBadRequest {
		t.Errorf("a spot machine stops: %v", answer)
	}
	state := func() any { _, m := ask(t, h, "GET", zone+"/instances/m-0", ""); return m["status"] }
	status, stop := ask(t, h, "POST", zone+"/instances/m-0/stop", "")
	if status != http.StatusOK || state() != "STOPPING" {
		t.Errorf("stop: %v, %v", stop, state())
	}
	b.now = b.now.Add(time.Minute)
	done := func() any {
		_, o := ask(t, h, "GET", zone+"/operations/"+stop["name"].(string), "")
		return o["status"]
	}
	if done() != "RUNNING" {
		t.Errorf("the stop of a machine that is stopping: %v", done())
	}
	b.region.Gone(b.now, "m-0")
	if state() != "TERMINATED" || done() != "DONE" {
		t.Errorf("stopped: %v, %v", state(), done())
	}
	if status, answer := ask(t, h, "POST", zone+"/instances/m-0/start", ""); status != http.StatusOK || state() == "TERMINATED" || done() != "DONE" {
		t.Errorf("start: %v, %v", answer, state())
	}
}

func TestProtectedMachineIsNotDeleted(t *testing.T) {
	h, _ := newHandler(t)
	const protected = `"deletionProtection": true, `
	if status, answer := ask(t, h, "POST", zone+"/instances", machine("m-1", protected+spot)); status != http.StatusBadRequest {
		t.Errorf("a protected spot machine: %v", answer)
	}
	ask(t, h, "POST", zone+"/instances", machine("m-0", protected))
	if _, m := ask(t, h, "GET", zone+"/instances/m-0", ""); m["deletionProtection"] != true {
		t.Errorf("it reads back %v", m)
	}
	if status, answer := ask(t, h, "DELETE", zone+"/instances/m-0", ""); status != http.StatusBadRequest || reason(answer) != "invalidResourceUsage" {
		t.Errorf("a protected machine is deleted: %v", answer)
	}
	if status, answer := ask(t, h, "POST", zone+"/instances/m-0/setDeletionProtection?deletionProtection=no", ""); status != http.StatusBadRequest {
		t.Errorf("neither true nor false: %v", answer)
	}
	for _, path := range []string{"POST /setDeletionProtection?deletionProtection=false", "DELETE "} {
		method, rest, _ := strings.Cut(path, " ")
		if status, answer := ask(t, h, method, zone+"/instances/m-0"+rest, ""); status != http.StatusOK {
			t.Errorf("%s: %v", path, answer)
		}
	}
}

func TestPermissions(t *testing.T) {
	h, _ := newHandler(t)
	for path, want := range map[string]int{"projects/p:testIamPermissions": 200, "projects/-/serviceAccounts/a@x:testIamPermissions": 200, "projects/p:undelete": 404, "projects/p/locations/q:testIamPermissions": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/"+path, strings.NewReader(`{"permissions": ["a.b"]}`)))
		if w.Code != want || want == 200 && !strings.Contains(w.Body.String(), `["a.b"]`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for name, want := range map[string]int{"default": 200, "other": 404} {
		if status, answer := ask(t, h, "POST", "regions/us-central1/subnetworks/"+name+"/testIamPermissions", `{"permissions": ["a.b"]}`); status != want {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/projects/p/services:batchGet?names=projects/p/services/sts.googleapis.com", nil))
	if !strings.Contains(w.Body.String(), `"name":"projects/p/services/sts.googleapis.com","state":"ENABLED"`) {
		t.Errorf("services: %s", w.Body)
	}
}

func TestPlacesAndImages(t *testing.T) {
	h, _ := newHandler(t)
	for n, terms := range []string{"", spot, spot} {
		ask(t, h, "POST", zone+"/instances", machine(fmt.Sprintf("m-%d", n), terms))
	}
	for path, kind := range map[string]string{
		"regions": "compute#regionList", "regions/us-central1": "compute#region", zone: "compute#zone", "global/images/i": "compute#image",
		"global/images/family/debian-12": "compute#image", "aggregated/machineTypes": "compute#machineTypeAggregatedList",
	} {
		if status, answer := ask(t, h, "GET", path, ""); status != http.StatusOK || answer["kind"] != kind {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	_, r := ask(t, h, "GET", "regions/us-central1", "")
	for _, q := range r["quotas"].([]any) {
		if q := q.(map[string]any); q["metric"] == "CPUS" && q["usage"] != 2.0 || q["metric"] == "PREEMPTIBLE_CPUS" && q["usage"] != 4.0 {
			t.Errorf("in use of a quota: %v", q)
		}
	}
	if status, _ := ask(t, h, "GET", "regions/mars", ""); status != http.StatusNotFound {
		t.Errorf("unknown region: %d", status)
	}
}
