package rack

import (
	"errors"
	"testing"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

func pool(class market.Class) market.Pool {
	return market.Pool{Provider: "rack", Region: "cellar", Zone: "cellar-a", Type: "pc", Class: class}
}

// Every cloud takes the same exam.
func TestExam(t *testing.T) {
	provisionertest.Run(t, func(testing.TB) provisionertest.Subject {
		r := New(10)
		return provisionertest.Subject{Cloud: r.Cluster("blue"), Other: r.Cluster("red"), Spot: pool(market.Spot), OnDemand: pool(market.OnDemand), Unknown: "rack-9999-0"}
	})
}

func TestSwitching(t *testing.T) {
	r := New(3)
	on := map[int]string{}
	r.On = func(slot int, _ provisioner.InstanceID, userData string) error {
		if slot == 1 {
			return errors.New("does not start")
		}
		on[slot] = userData
		return nil
	}
	r.Off = func(slot int) error { delete(on, slot); return nil }
	cloud := r.Cluster("blue")
	machines, err := cloud.Launch(t.Context(), provisioner.Request{Token: "one", Pool: pool(market.OnDemand), Count: 3, UserData: "hello"})
	if err != nil || len(machines) != 2 || len(on) != 2 || on[0] != "hello" {
		t.Fatalf("%v, %v, on: %v", machines, err, on)
	}
	if _, err := cloud.Launch(t.Context(), provisioner.Request{Token: "two", Pool: pool(market.OnDemand), Count: 1}); !errors.Is(err, provisioner.ErrNoCapacity) {
		t.Errorf("a full rack: %v", err)
	}
	if err := cloud.Terminate(t.Context(), machines[0].ID); err != nil || len(on) != 1 {
		t.Errorf("%v, on: %v", err, on)
	}
}
