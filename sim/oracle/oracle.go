// Package oracle computes, with knowledge of the future, the least that a job could have cost from a start under any
// decisions, as a yardstick for policies. The result is a lower bound, not a plan: a relaxation of what the simulator
// allows, solved exactly, with all rounding in its own favour. README.md describes the model.
//
// It knows recorded prices, a provider's terms and how long a machine takes to start. It knows nothing about policies,
// controllers and clocks of training.
package oracle

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

// Option is a fleet that the oracle may hold: as many machines of one pool as the job wants. It may hold any fraction
// of it.
type Option struct {
	Pool     market.Pool
	Prices   *market.History // including the future; constant for an on-demand pool
	Bid      market.USD      // machines are reclaimed when the price exceeds it; 0 = never
	Machines int             // number that satisfies the job
	Rate     float64         // work of one machine per hour
}

// Config is a market and how a job uses it.
type Config struct {
	Options []Option
	Terms   market.Terms
	// Startup is the shortest time from the launch of a machine until it works.
	Startup time.Duration
	// Notice is how long machines run on after the price has exceeded their bid.
	Notice time.Duration
	// LowerBids allows any bid up to the option's for each machine, so that any rise of the price may interrupt it.
	LowerBids bool
	// Exchange is how long before the end of a fleet's paid hour its replacement may be bought, if machines are paid by
	// the hour; 0 = at any time within it.
	Exchange time.Duration
	// First and Last are the minutes that bound all runs.
	First, Last time.Time
	// Horizon is the longest run. Longer runs are not considered.
	Horizon time.Duration
	// Reliable are the machines that must be held from beginning to end, in addition to the options.
	Reliable Reliable
}

// Reliable is a tier of on-demand machines that stays for the whole run. The zero value means no tier.
type Reliable struct {
	PerHour market.USD // all machines
	Rate    float64    // their work per hour; the oracle has them work throughout
	// Stand is how long after the start they are ready: nothing else can be bought earlier.
	Stand time.Duration
}

// Oracle is a market prepared for searches. It is safe for concurrent use.
type Oracle struct {
	cfg     Config
	grid    grid
	ladder  ladder
	startup float64 // minutes
	lambda0 float64 // dollars per unit of work; see price
}

// New prepares a market.
func New(cfg Config) (*Oracle, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	o := &Oracle{cfg: cfg, grid: newGrid(cfg), startup: cfg.Startup.Minutes()}
	o.ladder = newLadder(cfg)
	o.lambda0 = o.grid.cheapestWork() / 4
	return o, nil
}

func (c *Config) check() error {
	switch {
	case len(c.Options) == 0:
		return errors.New("there is nothing to buy")
	case !c.Last.After(c.First) || c.Horizon <= 0:
		return errors.New("there is no time to run in")
	case c.Terms.Increment != 0 && c.Terms.Increment != time.Hour:
		return fmt.Errorf("terms that bill by %s are not known", c.Terms.Increment)
	}
	for _, o := range c.Options {
		if o.Machines < 1 || !(o.Rate > 0) {
			return fmt.Errorf("%d machines of %s with a rate of %v do no work", o.Machines, o.Pool, o.Rate)
		}
	}
	return nil
}

// price returns the k-th price of work, in dollars per unit: consecutive prices differ by a percent.
func (o *Oracle) price(k int) float64 { return o.lambda0 * math.Pow(lambdaStep, float64(k)) }

const (
	lambdaStep = 1.01
	lambdas    = 1100 // from a quarter of the lowest price ever to 14,000 times that
)

// ladder divides the possible lengths of a run into steps. A run of step j is at most end(j) long and pays at least
// paid(j) for its reliable machines.
type ladder struct {
	step    int // minutes
	steps   int
	perStep float64 // dollars
	whole   bool    // a started step is paid in full
}

func newLadder(c Config) ladder {
	l := ladder{step: group / 2, whole: c.Terms.Increment > 0}
	if l.whole {
		l.step = hour
	}
	l.steps = int(math.Ceil(c.Horizon.Minutes()/float64(l.step))) + 1
	l.perStep = dollars(c.Reliable.PerHour) * float64(l.step) / hour
	return l
}

func (l ladder) end(j int) int { return (j + 1) * l.step }

func (l ladder) paid(j int) float64 {
	if l.whole {
		j++
	}
	return float64(j) * l.perStep
}

func dollars(u market.USD) float64 { return float64(u) / float64(market.Dollar) }
