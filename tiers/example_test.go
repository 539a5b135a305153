package tiers_test

import (
	"fmt"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The more spot machines there are for each reliable one, the less the reliable ones do.
func ExampleStageFor() {
	thresholds := tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15}
	for _, transient := range []int{1, 4, 60} {
		fmt.Println(transient, "spot machines for one reliable: stage", tiers.StageFor(transient, 1, thresholds))
	}
	// Output:
	// 1 spot machines for one reliable: stage 1
	// 4 spot machines for one reliable: stage 2
	// 60 spot machines for one reliable: stage 3
}

// Two spot machines join a reliable one: one serves, and the reliable machine backs it up.
func ExampleNext() {
	layout := tiers.Next(tiers.Layout{Worker: make([]ps.ServerID, 4), Route: ps.Route{Owner: make([]ps.ServerID, 2), Backup: make([]ps.ServerID, 2)}}, []tiers.Member{
		{ID: "reliable", Tier: tiers.Reliable, VCPU: 4}, {ID: "spot-1", Tier: tiers.Transient, Joined: 1, VCPU: 4}, {ID: "spot-2", Tier: tiers.Transient, Joined: 2, VCPU: 4},
	}, tiers.Thresholds{TwoAbove: 1, ThreeAbove: 15})
	fmt.Println("stage", layout.Stage, "owners", layout.Route.Owner, "backups", layout.Route.Backup)
	// Output: stage 2 owners [spot-1 spot-1] backups [reliable reliable]
}
