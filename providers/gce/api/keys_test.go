package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/tierml/tierml/internal/location"
	gce "github.com/tierml/tierml/providers/gce/api"
)

// exchange plays Google's security token service.
type exchange struct{ form string }

func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.ParseForm(); err != nil || r.URL.Host != "sts.googleapis.com" {
		return nil, err
	}
	e.form = r.PostForm.Get("subject_token") + " " + r.PostForm.Get("options")
	body := `{"access_token": "narrow", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 600}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// The token of a run is this process's own, with a boundary that names the run's folder.
func TestRunKeys(t *testing.T) {
	folder, err := location.Parse("gs://bucket/checkpoints/small-1")
	if err != nil {
		t.Fatal(err)
	}
	e := &exchange{}
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: e})
	for _, tokens := range []bool{true, false} {
		cloud, err := gce.New(ctx, gce.Config{Project: "p-project", Region: "us-central1", Cluster: "c", Job: "j", Endpoint: "http://127.0.0.1:1", Image: "projects/x/global/images/y",
			StoreTokens: gce.StoreTokens{Give: tokens, From: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "wide"})}})
		if err != nil {
			t.Fatal(err)
		}
		keys, ok, err := cloud.RunKeys(ctx, "small-1", folder)
		if err != nil || ok != tokens || ok && (keys.Token != "narrow" || time.Until(keys.Expires) < 9*time.Minute) {
			t.Errorf("%+v, %v, %v", keys, ok, err)
		}
		cloud.Close()
	}
	if !strings.HasPrefix(e.form, "wide ") || !strings.Contains(e.form, "objects/checkpoints/small-1/program/state/") || strings.Contains(e.form, "objects/checkpoints/'") {
		t.Errorf("asked for %s", e.form)
	}
}
