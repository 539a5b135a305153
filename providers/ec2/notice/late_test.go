package notice

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A service that does not answer in time is one that is asked again: the error says so, whatever the library makes of it.
func TestLateServiceIsRecognized(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-stop }))
	defer server.Close()
	defer close(stop)
	if _, err := ReadIdentity(t.Context(), Config{Endpoint: server.URL}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
