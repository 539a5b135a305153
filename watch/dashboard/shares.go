package dashboard

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// GroupLimits are the limits that a job server sets for a group.
type GroupLimits struct {
	Budget market.USD // of all its jobs together, including ended ones; 0 = none
	Quota  string     // in words; empty = none
}

// share is the present machines and the cost of the runs of a group or a user.
type share struct {
	Of, Name string // Of is "group" or "user"
	Link     string // to its runs
	Running  int
	Machines int
	Month    market.USD // of runs that began in this month
	All      market.USD
	Replayed market.USD // in this month on replayed markets, not real money
	GroupLimits
}

// addShares sums up the runs by group and by user, the most expensive of the month first.
func (v *listView) addShares(all []Row, now time.Time) {
	month := now.UTC().Format("2006-01")
	by := map[[2]string]*share{}
	of := func(kind, name string) *share {
		key := [2]string{kind, name}
		if by[key] == nil {
			by[key] = &share{Of: kind, Name: name, Link: "/?" + url.Values{kind: {name}}.Encode()}
		}
		return by[key]
	}
	if v.Manager != nil {
		for group, limits := range v.Manager.Groups {
			of("group", group).GroupLimits = limits
		}
	}
	for _, j := range all {
		for kind, name := range map[string]string{"group": j.Group, "user": j.User} {
			if name != "" {
				of(kind, name).add(j, j.Started.UTC().Format("2006-01") == month)
			}
		}
	}
	v.Month = month
	v.Shares = slices.SortedFunc(maps.Values(by), func(a, b *share) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(b.Month, a.Month), cmp.Compare(a.Name, b.Name))
	})
}

func (s *share) add(j Row, thisMonth bool) {
	if j.Active() {
		s.Running++
		s.Machines += j.Reliable + j.Transient
	}
	switch {
	case j.Replayed && thisMonth:
		s.Replayed += dollars(j.Spent)
	case j.Replayed:
	default:
		if s.All += dollars(j.Spent); thisMonth {
			s.Month += dollars(j.Spent)
		}
	}
}
