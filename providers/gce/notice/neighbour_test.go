package notice

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// A machine that is a process does not ask another user of its host for its identity and orders, if the port of its metadata
// server has become his.
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
