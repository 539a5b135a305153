package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
)

// promise is what a job file says about its run in advance.
type promise struct {
	Group  string
	Budget string
	Limits struct {
		PerHour    string `json:"per_hour"`
		OverHour   string `json:"over_hour"`
		OverBudget string `json:"over_budget"`
	}
	Train *struct{ Staleness *float64 }
}

// promiseOf decodes a job in the journal; an unreadable one promises nothing.
func promiseOf(job json.RawMessage) (p promise) {
	if json.Unmarshal(job, &p) != nil {
		return promise{}
	}
	p.Budget, p.Limits.PerHour = strings.TrimPrefix(p.Budget, "$"), strings.TrimPrefix(p.Limits.PerHour, "$")
	return p
}

// limits describes a run's spending limits, its spending and the response above them; empty without limits.
func (p promise) limits(spent, perHour market.USD, paused bool) string {
	var said []string
	if budget, err := market.ParseUSD(p.Budget); err == nil && budget > 0 {
		said = append(said, fmt.Sprintf("%s spent of a budget of %s (%.0f %%; above it: %s)", spent.Cents(), budget.Cents(),
			100*float64(spent)/float64(budget), cmp.Or(p.Limits.OverBudget, config.LimitStop)))
	}
	if most, err := market.ParseUSD(p.Limits.PerHour); err == nil && most > 0 {
		text := fmt.Sprintf("%s an hour of %s (above it: %s)", perHour.Cents(), most.Cents(), cmp.Or(p.Limits.OverHour, config.LimitShrink))
		if paused {
			text += ", paused now"
		}
		said = append(said, text)
	}
	return strings.Join(said, "; ")
}
