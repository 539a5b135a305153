package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/provisioner"
)

const terminated = `<TerminateInstancesResponse><instancesSet/></TerminateInstancesResponse>`

func idsIn(form url.Values) []string {
	var ids []string
	for n := 1; form.Has(fmt.Sprintf("InstanceId.%d", n)); n++ {
		ids = append(ids, form.Get(fmt.Sprintf("InstanceId.%d", n)))
	}
	return ids
}

func TestTerminateRequest(t *testing.T) {
	s := newServer(t, always(http.StatusOK, terminated))
	if err := s.cloud().Terminate(t.Context(), "i-0b", "i-0a", "i-0b"); err != nil {
		t.Fatal(err)
	}
	wantForm(t, s.recorded()[0], `
		Action=TerminateInstances
		Version=2016-11-15
		InstanceId.1=i-0a
		InstanceId.2=i-0b`)
	if err := s.cloud().Terminate(t.Context()); err != nil || len(s.recorded()) != 1 {
		t.Errorf("terminating nothing: %v, asked %v", err, s.actions())
	}
}

func TestTerminateInChunks(t *testing.T) {
	s := newServer(t, always(http.StatusOK, terminated))
	var all []provisioner.InstanceID
	for n := range 250 {
		all = append(all, provisioner.InstanceID(fmt.Sprintf("i-%04x", n)))
	}
	if err := s.cloud().Terminate(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	var sent []provisioner.InstanceID
	for _, form := range s.recorded() {
		ids := idsIn(form)
		if len(ids) > 100 {
			t.Errorf("%d machines in one call", len(ids))
		}
		for _, id := range ids {
			sent = append(sent, provisioner.InstanceID(id))
		}
	}
	if !slices.Equal(sent, all) || len(s.recorded()) != 3 {
		t.Errorf("sent %d machines in %d calls", len(sent), len(s.recorded()))
	}
}

// strict knows some machines and refuses a call that names any other, as EC2 does.
func strict(known *[]string, ended *[]string, naming bool) func(url.Values) (int, string) {
	return func(form url.Values) (int, string) {
		var unknown []string
		for _, id := range idsIn(form) {
			if !slices.Contains(*known, id) {
				unknown = append(unknown, id)
			}
		}
		if len(unknown) == 0 {
			*ended = append(*ended, idsIn(form)...)
			return http.StatusOK, terminated
		}
		message := "Some instances do not exist"
		if naming {
			message = "The instance IDs '" + strings.Join(unknown, ", ") + "' do not exist"
		}
		return http.StatusBadRequest, apiError("InvalidInstanceID.NotFound", message)
	}
}

// One id unknown to EC2 must not keep the others alive.
func TestTerminateLeavesOutUnknown(t *testing.T) {
	for _, naming := range []bool{true, false} {
		var ended []string
		s := newServer(t, strict(&[]string{"i-0b", "i-0d"}, &ended, naming))
		if err := s.cloud().Terminate(t.Context(), "i-0a", "i-0b", "i-0c", "i-0d"); err != nil {
			t.Fatalf("naming %v: %v", naming, err)
		}
		if want := []string{"i-0b", "i-0d"}; !slices.Equal(ended, want) {
			t.Errorf("naming %v: ended %v, want %v", naming, ended, want)
		}
	}
}

// EC2 may not know a machine yet that it has just sold: it must still be ended.
func TestTerminateInsistsOnFreshMachines(t *testing.T) {
	var known, ended []string
	knows := strict(&known, &ended, true)
	refused := 0
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("Action") == "RunInstances" {
			return http.StatusOK, runAnswer(instance{id: "i-0a", state: "pending"})
		}
		status, body := knows(form)
		if status != http.StatusOK {
			refused++
			known = append(known, "i-0a") // from now on
		}
		return status, body
	})
	cloud := s.cloud()
	if _, err := cloud.Launch(t.Context(), spotRequest()); err != nil {
		t.Fatal(err)
	}
	if err := cloud.Terminate(t.Context(), "i-0a"); err != nil {
		t.Fatal(err)
	}
	if refused != 1 || !slices.Equal(ended, []string{"i-0a"}) {
		t.Errorf("refused %d times, ended %v", refused, ended)
	}
}

// A chunk that fails does not save the others.
func TestTerminateContinuesAfterFailure(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		if slices.Contains(idsIn(form), "i-0000") {
			return http.StatusForbidden, apiError("OperationNotPermitted", "protected")
		}
		return http.StatusOK, terminated
	})
	var all []provisioner.InstanceID
	for n := range 101 {
		all = append(all, provisioner.InstanceID(fmt.Sprintf("i-%04x", n)))
	}
	err := s.cloud().Terminate(t.Context(), all...)
	if !errors.Is(err, provisioner.ErrDenied) || len(s.recorded()) != 2 {
		t.Errorf("got %v after %d calls", err, len(s.recorded()))
	}
}
