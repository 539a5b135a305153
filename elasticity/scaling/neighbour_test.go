package scaling

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// The port of a dead run may belong to another user by now: its token is not sent there.
func TestAnotherUserIsNoRun(t *testing.T) {
	address, heard := sameusertest.Record(t)
	directory := t.TempDir()
	if err := (door{Address: address, Token: "secret"}).write(filepath.Join(directory, File)); err != nil {
		t.Fatal(err)
	}
	if err := Ask(t.Context(), directory, &pb.Change{}, nil); err == nil {
		t.Error("it was asked")
	}
	if said := heard(); said != "" {
		t.Errorf("it heard %q", said)
	}
}

// Another user of the host gets no answer from a run's calls, whatever token they know.
func TestAnotherUserScalesNothing(t *testing.T) {
	directory, _, _ := serve(t, &driver{})
	var d door
	text, err := os.ReadFile(filepath.Join(directory, File))
	if err := errors.Join(err, json.Unmarshal(text, &d)); err != nil {
		t.Fatal(err)
	}
	conn := sameusertest.Dial(t, d.Address)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // as a client begins; it may be closed by now
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
