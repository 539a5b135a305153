package pricelist

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The advisor is queried once a day; a broken or missing answer is an error or requested again.
func TestAdvice(t *testing.T) {
	asked, answer, status := 0, `{"ranges":[{"index":0,"label":"<5%","max":5}],"spot_advisor":{"us-west-2":{"Linux":{"c5.xlarge":{"s":60,"r":0}}}}}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	folder, now := filepath.Join(t.TempDir(), "prices"), time.Now()
	look := func(folder string, now time.Time, want int, fails bool) {
		t.Helper()
		asked = 0
		table, at, err := Advice(t.Context(), server.Client(), server.URL, folder, now)
		if asked != want || (err != nil) != fails {
			t.Fatalf("asked %d times, want %d: %v", asked, want, err)
		}
		if _, ok := table.Lookup("us-west-2", "c5.xlarge"); err == nil && (!ok || at.After(now)) {
			t.Errorf("%v at %v", ok, at)
		}
	}
	look("", now, 1, false)
	look(folder, now, 1, false)
	look(folder, now.Add(Fresh/2), 0, false)
	look(folder, now.Add(2*Fresh), 1, false)
	if err := os.WriteFile(filepath.Join(folder, "spot-advisor.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	look(folder, time.Now(), 1, false)
	status = http.StatusForbidden
	look("", now, 1, true)
	status, answer = http.StatusOK, "{}"
	look("", now, 1, true)
	server.Close()
	look("", now, 0, true)
}
