package api_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A lease is two tags; machines unknown to EC2 are skipped, and the others are renewed.
func TestRenewFields(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Has("ResourceId.2") {
			return http.StatusBadRequest, apiError("InvalidInstanceID.NotFound", "The instance ID 'i-0000000000000000b' does not exist")
		}
		return http.StatusOK, "<CreateTagsResponse><return>true</return></CreateTagsResponse>"
	})
	if err := s.cloud().Renew(t.Context(), "2", noon, "i-0000000000000000b", "i-0000000000000000a"); err != nil {
		t.Fatal(err)
	}
	const tags = `
		Action=CreateTags
		Version=2016-11-15
		Tag.1.Key=tierml:expires
		Tag.1.Value=2026-11-21T12:00:00Z
		Tag.2.Key=tierml:generation
		Tag.2.Value=2
		ResourceId.1=i-0000000000000000a`
	got := s.recorded()
	wantForm(t, got[0], tags+"\n\t\tResourceId.2=i-0000000000000000b")
	wantForm(t, got[1], tags)
}
