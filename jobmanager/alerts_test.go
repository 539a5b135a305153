package jobmanager

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/alert"
)

// The end of every job is reported once, even if it ended while there was no job server.
func TestEndsSendAlerts(t *testing.T) {
	heard := make(chan alert.Alert, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var a alert.Alert
		if err := json.NewDecoder(r.Body).Decode(&a); err == nil {
			heard <- a
		}
	}))
	defer server.Close()
	hook, err := alert.NewHook(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	notifier := alert.NewNotifier(hook, slog.New(slog.DiscardHandler))
	defer notifier.Close()
	s := newSite(t)
	s.cfg.Notifier = notifier
	s.begin()
	id, alone := s.submit(), s.submit()
	s.clocks(id, 1)
	s.clocks(alone, 1)
	s.tell(id, "fail")
	if a := <-heard; a.Kind != alert.Failed || a.Run != id || a.Why != "no pool" || a.Clock == 0 {
		t.Errorf("%+v", a)
	}
	s.end()
	s.tell(alone, "finish")
	s.begin()
	if a := <-heard; a.Kind != alert.Finished || a.Run != alone {
		t.Errorf("%+v", a)
	}
	s.until(alone, call.Finished)
	if len(heard) > 0 {
		t.Errorf("told twice: %+v", <-heard)
	}
}
