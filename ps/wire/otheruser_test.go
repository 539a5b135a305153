package wire

import (
	"testing"

	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// A server's port that another user of the host has taken gets no frame, whichever way it is dialled.
func TestAnotherUserHasThePort(t *testing.T) {
	address, heard := sameusertest.Record(t)
	for name, dial := range map[string]Dialer{"tcp": DialTCP, "local": DialLocal(7)} {
		conn, err := dial(t.Context(), address)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s: connected", name)
		}
	}
	if said := heard(); said != "" {
		t.Errorf("it heard %q", said)
	}
}
