package ec2_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A lease is two tags; machines that EC2 does not know are left out, and the others are renewed.
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

// Against the fake cloud: what a machine was launched with is put off, and read again.
func TestLeases(t *testing.T) {
	pool := spotPool()
	fake := startFakeCloud(t, fakecloud.Config{Clock: clock.Real(), Region: pool.Region, Rules: mustRules(t), Notice: time.Hour,
		Types:  []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, OnDemand: market.Dollar / 10}}},
		Prices: map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 20)}})
	cloud := newCloud(t, ec2.Config{Endpoint: fake.Endpoint(), Region: pool.Region, Cluster: "blue", ImageID: "ami-1"})
	made, err := cloud.Launch(t.Context(), provisioner.Request{Token: "a-1", Pool: pool, Count: 2, Generation: "1", Expires: noon})
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Renew(t.Context(), "2", noon.Add(time.Hour), made[0].ID, unknownMachine); err != nil {
		t.Fatal(err)
	}
	held, err := cloud.Holdings(t.Context())
	if err != nil || len(held) != 2 {
		t.Fatalf("%v, %v", held, err)
	}
	for _, h := range held {
		want := noon
		if h.ID == made[0].ID {
			want = noon.Add(time.Hour)
		}
		if !h.Expires.Equal(want) {
			t.Errorf("%s is wanted until %v, want %v", h.ID, h.Expires, want)
		}
	}
}
