package jobrun

import (
	"context"
	"testing"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/providers"
)

// keyed is an account that has credentials for a run's folder.
type keyed struct{ providers.Account }

func (keyed) RunKeys(_ context.Context, run string, _ location.Place) (blob.Keys, bool, error) {
	return blob.Keys{AccessKeyID: "of " + run}, true, nil
}

// Jobs on shared hosts have the credentials that their own account gives: hosts have none for them.
func TestKeysOfSlots(t *testing.T) {
	var account providers.Account = slots{own: keyed{}}
	from, ok := account.(providers.RunKeys)
	if !ok {
		t.Fatal("slots have no credentials")
	}
	if keys, ok, err := from.RunKeys(t.Context(), "small-1", location.Place{}); keys.AccessKeyID != "of small-1" || !ok || err != nil {
		t.Errorf("%+v %t %v", keys, ok, err)
	}
	if _, ok, err := (slots{}).RunKeys(t.Context(), "small-1", location.Place{}); ok || err != nil {
		t.Errorf("without an account of its own: %t %v", ok, err)
	}
}
