package provisionertest

import (
	"testing"
	"time"

	"github.com/tierml/tierml/provisioner"
)

func needLeases(s Subject) string {
	if !s.Cloud.Traits().Leases {
		return "its machines do not carry until when they are wanted"
	}
	return ""
}

// checkLeases checks that a renewal extends the leases of the named machines only.
func checkLeases(t testing.TB, s Subject) {
	cloud := s.Cloud
	launched := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := s.request(2)
	r.Generation, r.Expires = "1", launched
	made := launch(t, s.Cloud, r)
	await(t, s, r.Token, "running", allAre(provisioner.Running))
	renewed := launched.Add(time.Hour)
	if err := cloud.Renew(t.Context(), "2", renewed, made[0].ID, s.Unknown); err != nil {
		t.Fatalf("renewing one lease, and one of a machine that nobody knows: %v", err)
	}
	held, err := cloud.Holdings(t.Context())
	if err != nil {
		t.Fatalf("asking what is held: %v", err)
	}
	if len(held) != len(made) {
		t.Fatalf("launched %v, held %+v", ids(made), held)
	}
	for _, h := range held {
		want := launched
		if h.ID == made[0].ID {
			want = renewed
		}
		if !h.Expires.Equal(want) {
			t.Errorf("%s is wanted until %s, want %s", h.ID, h.Expires, want)
		}
	}
	if err := s.Cloud.Terminate(t.Context(), ids(made)...); err != nil {
		t.Fatalf("terminating: %v", err)
	}
	await(t, s, r.Token, "terminated", allAre(provisioner.Terminated))
	if err := cloud.Renew(t.Context(), "2", renewed, made[0].ID); err != nil {
		t.Errorf("renewing the lease of a machine that has ended: %v", err)
	}
}

// checkSameTokenAfterRenewal checks that a renewal does not turn a repeated launch into a new one.
func checkSameTokenAfterRenewal(t testing.TB, s Subject) {
	r := s.request(2)
	r.Generation, r.Expires = "1", time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	made := launch(t, s.Cloud, r)
	await(t, s, r.Token, "running", allAre(provisioner.Running))
	if err := s.Cloud.Renew(t.Context(), "2", r.Expires.Add(time.Hour), ids(made)...); err != nil {
		t.Fatalf("renewing leases: %v", err)
	}
	launch(t, s.Cloud, r)
	checkOnly(t, s, r.Token, made)
}
