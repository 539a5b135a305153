package api_test

import (
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// TestCapacityAdvice: the fields of the request, and the interpretation of answers.
func TestCapacityAdvice(t *testing.T) {
	answer := `{"recommendations": [{"scores": {"obtainability": 0.75, "estimatedUptime": "600s"}, "shards": [{"zone": "zones/us-central1-a", "instanceCount": 8}]}]}`
	s := newServer(t, func(request) (int, string) { return 200, answer })
	cloud := s.cloud()
	if a, told, err := cloud.CapacityAdvice(t.Context(), spotPool(), 8); err != nil || !told || a != (provisioner.CapacityAdvice{Obtainability: 0.75, Uptime: 10 * time.Minute}) {
		t.Errorf("%+v, %v, %v", a, told, err)
	}
	r := s.only("POST")
	if r.path != "regions/us-central1/advice/capacity" {
		t.Errorf("POST %s", r.path)
	}
	var sent computepb.CapacityAdviceRequest
	wantBody(t, r.body, `{"size": 8, "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
  "instanceFlexibilityPolicy": {"instanceSelections": {"machines": {"machineTypes": ["n2-standard-2"]}}},
  "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": "zones/us-central1-a"}]}}`, &sent)
	for text, want := range map[string]struct {
		told bool
		err  error
	}{
		`{}`: {}, `{"recommendations": [{}]}`: {},
		`{"recommendations": [{"scores": {"obtainability": 0}}]}`:                            {told: true},
		`{"recommendations": [{"scores": {"obtainability": 1, "estimatedUptime": "soon"}}]}`: {err: provisioner.ErrInvalid},
	} {
		answer = text
		if _, told, err := cloud.CapacityAdvice(t.Context(), spotPool(), 8); told != want.told || !errors.Is(err, want.err) {
			t.Errorf("%s: %v, %v", text, told, err)
		}
	}
	pool := spotPool()
	pool.Class = market.OnDemand
	if _, _, err := cloud.CapacityAdvice(t.Context(), pool, 1); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("on demand: %v", err)
	}
}

// The fake cloud's advice follows its capacity.
func TestCapacityAdviceOfTheFakeCloud(t *testing.T) {
	fake := fakecloudtest.Start(t, fakeConfig(t))
	cloud := newCloud(t, adapterConfig(fake.Endpoint(), clock.Real()))
	for machines, want := range map[int]float64{fakeCapacity: 1, 4 * fakeCapacity: 0.25} {
		if a, told, err := cloud.CapacityAdvice(t.Context(), spotPool(), machines); err != nil || !told || a.Obtainability != want || a.Uptime != time.Hour {
			t.Errorf("%d machines: %+v, %v, %v; want %v", machines, a, told, err, want)
		}
	}
}
