package node

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/sameuser/sameusertest"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
)

// The port of a dead controller may be taken by another user of the host. An agent without TLS does not send its secret there, and obeys no
// commands.
func TestAnotherUserIsNoController(t *testing.T) {
	address, heard := sameusertest.Record(t)
	n := &node{user: UserData{Controller: address, Token: "the secret of a launch"}}
	conn, err := n.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewControlClient(conn).Attach(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil || !strings.Contains(err.Error(), "it is of user 65534") {
		t.Error(err)
	}
	if said := heard(); said != "" {
		t.Errorf("it heard %q", said)
	}
}
