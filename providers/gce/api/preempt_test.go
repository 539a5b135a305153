package api_test

import (
	"testing"

	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/provisioner"
)

// A simulated maintenance event takes back one Spot machine as the market would, notice first; unknown machines are skipped.
func TestPreempt(t *testing.T) {
	config := fakeConfig(t)
	fake := fakecloudtest.Start(t, config)
	cloud := newCloud(t, adapterConfig(fake.Endpoint(), config.Clock))
	bought, err := cloud.Launch(t.Context(), provisioner.Request{Token: "exam-1", Pool: spotPool(), Count: 2, UserData: "x"})
	if err != nil {
		t.Fatal(err)
	}
	other := newCloud(t, adapterConfig(fake.Endpoint(), config.Clock)) // of another cluster
	for _, preempt := range []func() error{
		func() error { return other.Preempt(t.Context(), bought[0].ID) },
		func() error {
			return cloud.Preempt(t.Context(), bought[1].ID, bought[1].ID, "exam-nobody-knows-it-000")
		},
	} {
		if err := preempt(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range fake.Instances() {
		if noticed := !m.Deadline.IsZero(); noticed != (m.ID == string(bought[1].ID)) {
			t.Errorf("%s of %s has a notice: %v", m.ID, m.Pool, noticed)
		}
	}
}
