package server_test

import (
	"log/slog"
	"testing"
	"time"
)

// await polls until a condition holds.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatal("it never happened")
		case <-tick.C:
		}
	}
}

var discard = slog.New(slog.DiscardHandler)
