package planner

import (
	"fmt"

	"github.com/tierml/tierml/internal/journal"
)

// Own records how well the ranges of plans held for runs that have finished here, on replayed prices or on a real cloud.
type Own struct {
	Replayed             bool
	Runs, ByCost, ByTime int
}

// fewestOwn is the number of runs from which a plan mentions their record.
const fewestOwn = 5

// words returns a sentence, or nothing if too few runs have finished.
func (o Own) words() string {
	if o.Runs < fewestOwn {
		return ""
	}
	where := "on this cloud"
	if o.Replayed {
		where = "on replayed prices"
	}
	return fmt.Sprintf(" Of %d of your runs %s, %d ended inside by cost, %d by time.", o.Runs, where, o.ByCost, o.ByTime)
}

func (o Own) details() *journal.PlanOwn {
	if o.Runs == 0 {
		return nil
	}
	return &journal.PlanOwn{Replayed: o.Replayed, Runs: o.Runs, ByCost: o.ByCost, ByTime: o.ByTime}
}
