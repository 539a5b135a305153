package link

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/tierml/tierml/tiers"
)

// A silent connection to the control plane without TLS is closed.
func TestSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		l, err := Listen(t.Context(), Config{Listener: listener, Log: slog.New(slog.DiscardHandler), Accept: func(tiers.Hello) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		conn, err := listener.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until it is closed
		if after := time.Since(began); after > patience {
			t.Errorf("it was closed after %v", after)
		}
		_ = conn.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
