package computeapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/fuzzing"
)

// FuzzRequest sends a region whole HTTP requests, one after the other as time continues: nothing fails that is not the client's fault, and
// memory is bounded.
func FuzzRequest(f *testing.F) {
	request := func(method, path, body string) string {
		return method + " /compute/v1/projects/p/" + path + " HTTP/1.1\nHost: compute.local\nContent-Type: application/json\n\n" + body
	}
	for _, dialog := range [][]string{
		{request("POST", zone+"/instances?requestId=12345678-1234-8234-8234-123456789abc", machine("m-0", spot)),
			"+2s\n" + request("POST", zone+"/operations/operation-1-insert/wait", ""), request("GET", zone+"/instances/m-0", ""),
			request("POST", zone+"/instances/m-0/setLabels", `{"labels": {"a": "b"}, "labelFingerprint": "`+fingerprint(nil)+`"}`),
			request("POST", zone+"/instances/m-0/simulateMaintenanceEvent", ""), "+1m\n" + request("GET", "aggregated/operations?maxResults=1", "")},
		{request("POST", zone+"/instances/bulkInsert", `{"count": "5", "minCount": "1", "perInstanceProperties": {"m-0": {}, "m-1": {}, "m-2": {}, "m-3": {}, "m-4": {}},
  "instanceProperties": {"machineType": "n2-standard-2", "networkInterfaces": [{}], "disks": [{"boot": true, "initializeParams": {"sourceImage": "i"}}],
  "labels": {"job": "demo"}, "metadata": {"items": [{"key": "user-data", "value": "x"}]}, "scheduling": {"provisioningModel": "SPOT",
  "instanceTerminationAction": "DELETE", "maxRunDuration": {"seconds": "3600"}}}}`),
			"+1s\n" + request("GET", zone+"/instances?filter=labels.job%3Ddemo&maxResults=2", ""), request("DELETE", zone+"/instances/m-1", ""),
			"+2h\n" + request("GET", "aggregated/instances?filter=status%3DRUNNING&pageToken=1", ""), request("GET", zone+"/operations", "")},
		{request("GET", zone+"/machineTypes", ""), request("GET", zone+"/machineTypes/n2-standard-2", ""), request("GET", "zones", ""),
			"GET /v1/services/6F81-5844-456A/skus?pageSize=5 HTTP/1.1\nHost: cloudbilling.local"},
		{request("POST", "regions/us-central1/advice/capacity", `{"size": 2, "distributionPolicy": {"targetShape": "ANY", "zones": [{"zone": "zones/us-central1-a"}]}, "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
  "instanceFlexibilityPolicy": {"instanceSelections": {"a": {"machineTypes": ["n2-standard-2"]}}}}`),
			request("POST", "regions/us-central1/advice/capacityHistory", `{"instanceProperties": {"machineType": "n2-standard-2", "scheduling": {"provisioningModel": "SPOT"}}, "locationPolicy": {"location": "zones/us-central1-a"}, "types": ["PREEMPTION", "PRICE"]}`)},
	} {
		f.Add(strings.Join(dialog, fuzzing.Between))
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, dialog string) {
		if len(dialog) > 16<<10 {
			return
		}
		handler, backend := newHandler(t)
		fuzzing.AtMost(t, len(dialog), 8<<10, func() {
			for text := range strings.SplitSeq(dialog, fuzzing.Between) {
				r, pause := fuzzing.Request(text)
				if r == nil {
					continue
				}
				if strings.HasSuffix(r.URL.Path, "/wait") { // it looks once
					r = r.WithContext(ended)
				}
				backend.now = backend.now.Add(pause)
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, r)
				if answer.Code == http.StatusInternalServerError {
					t.Errorf("%q: %s", text, answer.Body)
				}
			}
		})
	})
}
