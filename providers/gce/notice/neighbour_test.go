package notice

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// A machine that is a process does not request its identity and user data from another user of its host who has taken over its metadata
// server's port.
func TestAnotherUserIsNoMetadataServer(t *testing.T) {
	address, heard := sameusertest.Record(t)
	conn, err := newService(answerWithin).transport.DialContext(t.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
		t.Error("connected")
	} else if !strings.Contains(err.Error(), "it is of user 65534") {
		t.Error(err)
	}
	if said := heard(); said != "" {
		t.Errorf("it heard %q", said)
	}
}
