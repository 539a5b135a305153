// Package provisionertest is the exam that every provisioner.Cloud takes: the contract as an executable test.
//
// A cloud's own test makes a Subject and calls Run. Whatever a provider cannot be made to do on request (run out of capacity, evict) is an
// optional knob of the Subject; parts that need a missing one are skipped and say so. Memory is a small cloud that passes, for testing code
// that is built on clouds.
//
// The exam does not know any provider.
package provisionertest

import (
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Subject is a cloud that takes the exam, with ways to make things happen to it. Each part of the exam gets
// its own, from the function given to Run, and expects to be alone in its cluster.
type Subject struct {
	Cloud provisioner.Cloud
	// Spot is a pool with at least five free machines and a price above LowBid and at most Bid.
	Spot market.Pool
	Bid  market.USD
	// LowBid is a bid below the price; 0 = this cloud has no prices.
	LowBid market.USD
	// OnDemand is a pool with at least one free machine; zero = none.
	OnDemand market.Pool
	// Other is another cluster on the same provider; nil = none.
	Other provisioner.Cloud
	// Unknown is the well-formed id of a machine that does not exist.
	Unknown provisioner.InstanceID

	// SetFree leaves n free machines in the Spot pool; nil = impossible.
	SetFree func(n int)
	// Evict makes the provider reclaim a machine with its usual notice; nil = impossible.
	Evict func(provisioner.InstanceID)
	// Expire makes the notice of an evicted machine expire immediately; nil = it expires by itself, within Patience.
	Expire func(provisioner.InstanceID)
	// Kill makes the provider reclaim a machine without notice; nil = impossible.
	Kill func(provisioner.InstanceID)

	// Lacks names parts of the exam that this cloud is known to fail, each with the reason: for incomplete emulators. They are skipped.
	Lacks map[string]string
	// Patience is how long to wait for something to happen, wall-clock (default 20 s).
	Patience time.Duration
}

// part is one question of the exam.
type part struct {
	name string
	// needs returns the name of the knob that the subject lacks for it; "" = none. nil = the part needs none.
	needs func(Subject) string
	check func(testing.TB, Subject)
}

func parts() []part {
	return []part{
		{"SpotLife", nil, checkSpotLife},
		{"OnDemandLife", needOnDemand, checkOnDemandLife},
		{"WholeCount", nil, checkWholeCount},
		{"SameTokenSameMachines", nil, checkSameToken},
		{"SameTokenConcurrently", nil, checkSameTokenConcurrently},
		{"SameTokenAfterLostAnswer", nil, checkLostAnswer},
		{"SameTokenAfterTheEnd", nil, checkSameTokenAfterTheEnd},
		{"UsedTokenOtherRequest", nil, checkTokenReuse},
		{"PartialCapacity", needSetFree, checkPartialCapacity},
		{"NoCapacity", needSetFree, checkNoCapacity},
		{"BidTooLow", needLowBid, checkBidTooLow},
		{"InvalidRequest", nil, checkInvalidRequest},
		{"TerminateTwice", nil, checkTerminateTwice},
		{"EndStays", nil, checkEndStays},
		{"TerminateUnknown", nil, checkTerminateUnknown},
		{"Eviction", needEvict, checkEviction},
		{"Kill", needKill, checkKill},
		{"NotifyTellsOfOwnTermination", nil, checkNotifyOwnTermination},
		{"OnlyOwnCluster", needOther, checkOnlyOwnCluster},
		{"Leases", needLeases, checkLeases},
		{"SameTokenAfterRenewal", needLeases, checkSameTokenAfterRenewal},
		{"Cancellation", nil, checkCancellation},
	}
}

// Run gives the exam, each part to a new Subject.
func Run(t *testing.T, newSubject func(testing.TB) Subject) {
	for _, p := range parts() {
		t.Run(p.name, func(t *testing.T) {
			s := newSubject(t).withDefaults()
			if why := s.skips(p); why != "" {
				t.Skip(why)
			}
			p.check(t, s)
		})
	}
}

func (s Subject) withDefaults() Subject {
	if s.Patience == 0 {
		s.Patience = 20 * time.Second
	}
	return s
}

func (s Subject) skips(p part) string {
	if why := s.Lacks[p.name]; why != "" {
		return "known lack: " + why
	}
	if p.needs == nil {
		return ""
	}
	return p.needs(s)
}

func need(has bool, what string) string {
	if has {
		return ""
	}
	return "this subject has no " + what
}

func needOnDemand(s Subject) string {
	return need(s.OnDemand != market.Pool{}, "on-demand pool")
}
func needSetFree(s Subject) string {
	return need(s.SetFree != nil, "way to run out of capacity (SetFree)")
}
func needLowBid(s Subject) string { return need(s.LowBid > 0, "prices (LowBid)") }
func needEvict(s Subject) string  { return need(s.Evict != nil, "way to evict (Evict)") }
func needKill(s Subject) string   { return need(s.Kill != nil, "way to evict without notice (Kill)") }
func needOther(s Subject) string  { return need(s.Other != nil, "second cluster (Other)") }
