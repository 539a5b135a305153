package computeapi

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// Metadata and network tags are replaced only by a caller who has seen them; a request id counts once.
func TestSetMetadataAndTags(t *testing.T) {
	h, b := newHandler(t)
	_, _ = ask(t, h, "POST", zone+"/instances", machine("m-0", `"metadata": {"items": [{"key": "a", "value": "1"}]}, `))
	const at = zone + "/instances/m-0"
	field := func(name string) map[string]any {
		_, m := ask(t, h, "GET", at, "")
		return m[name].(map[string]any)
	}
	before := field("metadata")["fingerprint"].(string)
	for name, c := range map[string]struct {
		path, body, reason string
		status             int
	}{
		"unseen metadata":  {"/setMetadata", `{"items": [{"key": "b", "value": "2"}]}`, "conditionNotMet", 412},
		"unseen tags":      {"/setTags", `{"items": ["a"]}`, "conditionNotMet", 412},
		"a bad tag":        {"/setTags", `{"items": ["A b"]}`, "invalid", 400},
		"an unknown field": {"/setTags", `{"colour": "red"}`, "badRequest", 400},
		"a key twice":      {"/setMetadata", `{"items": [{"key": "b"}, {"key": "b"}]}`, "invalid", 400},
	} {
		if status, answer := ask(t, h, "POST", at+c.path, c.body); status != c.status || reason(answer) != c.reason {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	const id = "?requestId=12345678-1234-8234-8234-123456789abc"
	body := `{"items": [{"key": "b", "value": "2"}], "fingerprint": "` + before + `"}`
	_, first := ask(t, h, "POST", at+"/setMetadata"+id, body)
	if _, again := ask(t, h, "POST", at+"/setMetadata"+id, body); again["name"] != first["name"] || first["operationType"] != "setMetadata" {
		t.Errorf("got %v, then %v", first, again)
	}
	if status, answer := ask(t, h, "POST", at+"/setMetadata", body); status != 412 {
		t.Errorf("a fingerprint of before: %d %v", status, answer)
	}
	if i, _ := b.region.Instance(b.now, "m-0"); len(i.Tags) != 1 || i.Tags["b"] != "2" {
		t.Errorf("the machine has %v", i.Tags)
	}
	if status, answer := ask(t, h, "POST", at+"/setTags", `{"items": ["web"], "fingerprint": "`+field("tags")["fingerprint"].(string)+`"}`); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	if tags := field("tags")["items"].([]any); len(tags) != 1 || tags[0] != "web" {
		t.Errorf("tags are %v", tags)
	}
	b.now = b.now.Add(time.Hour)
	if status, answer := ask(t, h, "POST", at+"/reset", ""); status != 200 {
		t.Errorf("reset: %d %v", status, answer)
	}
	_, _ = ask(t, h, "DELETE", at, "")
	if status, answer := ask(t, h, "POST", at+"/reset", ""); status == 200 {
		t.Errorf("reset of a machine that ends: %v", answer)
	}
}

// Public projects list their families, other projects only what the filter names.
func TestListsImages(t *testing.T) {
	h, _ := newHandler(t)
	for query, want := range map[string]int{
		"": 0, "?filter=family%3Ddebian-12": 1, "?filter=name%20eq%20%22x-1%22": 1, "?filter=family:*": 0, "?filter=colour%3Dred": -1, "?maxResults=0": -1,
	} {
		status, answer := ask(t, h, "GET", "global/images"+query, "")
		items, _ := answer["items"].([]any)
		if (status != 200) != (want < 0) || want >= 0 && len(items) != want {
			t.Errorf("%q: %d %v", query, status, answer)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/compute/v1/projects/debian-cloud/global/images?maxResults=2", nil))
	if text := w.Body.String(); !strings.Contains(text, "debian-12") || !strings.Contains(text, "nextPageToken") {
		t.Errorf("got %s", text)
	}
}

func TestListsAcceleratorTypes(t *testing.T) {
	gpu := func(name string, count int) region.Type {
		return region.Type{InstanceType: market.InstanceType{Name: name, VCPU: 12, MemoryMiB: 1 << 15, Arch: "x86_64", OnDemand: market.Dollar,
			GPU: market.GPU{Name: "A100", Count: count, MemoryMiB: 40 << 10}}}
	}
	h, b := newHandler(t)
	var err error
	if b.region, err = region.New(region.Config{Provider: region.GCE, Name: "us-central1", Zones: []string{"us-central1-a", "us-central1-b"},
		Types: []region.Type{gpu("a2-highgpu-1g", 1), gpu("a2-highgpu-4g", 4)}}); err != nil {
		t.Fatal(err)
	}
	_, answer := ask(t, h, "GET", zone+"/acceleratorTypes", "")
	if items := answer["items"].([]any); len(items) != 1 || items[0].(map[string]any)["maximumCardsPerInstance"] != 4.0 {
		t.Errorf("got %v", answer)
	}
	if status, one := ask(t, h, "GET", zone+"/acceleratorTypes/nvidia-tesla-a100", ""); status != 200 || one["description"] != "NVIDIA A100" {
		t.Errorf("got %v", one)
	}
	if status, one := ask(t, h, "GET", zone+"/acceleratorTypes/nvidia-x", ""); status != 404 {
		t.Errorf("got %v", one)
	}
	if _, all := ask(t, h, "GET", "aggregated/acceleratorTypes", ""); len(all["items"].(map[string]any)) != 2 {
		t.Errorf("got %v", all)
	}
}
