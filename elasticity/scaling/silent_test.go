package scaling

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A silent connection to a run is closed.
func TestSilentAtTheCalls(t *testing.T) {
	t.Parallel() // it takes handshakeTime
	directory, _, _ := serve(t, &driver{})
	text, err := os.ReadFile(filepath.Join(directory, File))
	if err != nil {
		t.Fatal(err)
	}
	var at door
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(6 * handshakeTime))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection stays: %v", err)
	}
}
