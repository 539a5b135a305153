package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A profile is sent until it is accepted, a newer one replaces it meanwhile, and a refused one is not repeated.
func TestProfilesArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := func(seconds time.Duration) elasticity.Action {
			return elasticity.Profiled{Served: tiers.Served{Profile: tiers.Profile{Clock: seconds * time.Second}}}
		}
		s := &script{ends: time.Now().Add(5 * time.Minute), do: map[time.Duration]elasticity.Action{
			2 * time.Second: profile(1), 30 * time.Second: profile(2), 60 * time.Second: profile(3), 200 * time.Second: profile(4),
		}}
		tried, taken := map[time.Duration]int{}, []time.Duration{}
		begun := time.Now()
		s.pass = func(_ context.Context, of tiers.Served) (none tiers.Preference, err error) {
			tried[of.Clock/time.Second]++
			switch {
			case of.Clock == 4*time.Second:
				return none, provisioner.ErrInvalid
			case time.Since(begun) < 90*time.Second:
				return none, provisioner.ErrTemporary
			}
			taken = append(taken, of.Clock/time.Second)
			return tiers.Preference{Owners: []ps.ServerID{"a"}, Why: fmt.Sprint(of.Clock)}, nil
		}
		play(t, &moody{}, s)
		var answers []string
		for _, e := range s.heard {
			if p, ok := e.(elasticity.Preferred); ok {
				answers = append(answers, p.Why)
			}
		}
		if !slices.Equal(answers, []string{"3s"}) {
			t.Errorf("the answers %q were passed back", answers)
		}
		if !slices.Equal(taken, []time.Duration{3}) || tried[1] < 3 || tried[2] < 3 || tried[4] != 1 {
			t.Errorf("profiles %v were taken, after %v tries", taken, tried)
		}
	})
}
