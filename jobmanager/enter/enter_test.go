package enter

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/market"
)

// A machine of a fake cloud is only entered where this user's cloud on this host has it: a remote job server's word is not trusted.
func TestHomeOfAMachine(t *testing.T) {
	pool, err := market.ParsePool("ec2/us-west-2/us-west-2a/c5.large/spot")
	if err != nil {
		t.Fatal(err)
	}
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_control/instances" {
			_ = json.NewEncoder(w).Encode([]fakecloud.InstanceView{{ID: "i-1", Pool: pool, Home: "/folder/of/i-1"}, {ID: "i-2", Pool: pool}})
		}
	}))
	defer cloud.Close()
	if home, err := HomeOf(t.Context(), cloud.URL, "i-1"); home != "/folder/of/i-1" || err != nil {
		t.Errorf("%q, %v", home, err)
	}
	if _, err := HomeOf(t.Context(), cloud.URL, "i-2"); err == nil || errors.Is(err, ErrNotHere) || !strings.Contains(err.Error(), "machine i-2 has just gone") {
		t.Error(err)
	}
	for address, id := range map[string]string{cloud.URL: "i-3", cloud.URL + "/other": "i-1", "http://203.0.113.1:80": "i-1", "http://127.0.0.1:1": "i-1", "": "i-1", "::": "i-1"} {
		if home, err := HomeOf(t.Context(), address, id); home != "" || !errors.Is(err, ErrNotHere) {
			t.Errorf("%s at %q: %q, %v", id, address, home, err)
		}
	}
}
