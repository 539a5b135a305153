package jobrun

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
)

// An endpoint that is something else, such as a web page, is reported as not being a fake cloud.
func TestEndpointThatIsNoFakeCloud(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<!doctype html>")) }))
	defer page.Close()
	if _, err := RemoteClock(t.Context(), &config.Job{Cloud: config.CloudLocal}, page.URL); err == nil || !strings.Contains(err.Error(), page.URL+" is no fake cloud") || strings.Contains(err.Error(), "invalid character") {
		t.Error(err)
	}
}
