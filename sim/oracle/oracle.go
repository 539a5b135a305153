// Package oracle knows the future: it gives the least that a job could have cost from a start, whatever had been decided,
// so that policies have something to be measured against. It is a lower bound, not a plan: a relaxation of what the
// simulator allows, solved exactly, with every rounding in its own favour. README.md has the model.
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

// Option is a fleet that the oracle may hold: as many machines of one pool as the job wants. It may hold any part of it.
type Option struct {
	Pool     market.Pool
	Prices   *market.History // the future, too; a constant for an on-demand pool
	Bid      market.USD      // the machines are taken back when the price exceeds it; 0 = never
	Machines int             // that satisfy what the job wants
	Rate     float64         // work of one machine per hour
}

// Config is a market and a job's way of using it.
type Config struct {
	Options []Option
	Terms   market.Terms
	// Startup is the least time from the launch of a machine until it works.
	Startup time.Duration
	// Notice is how long machines continue after the price has exceeded their bid.
	Notice time.Duration
	// LowerBids lets each machine be bought at any bid up to its option's, so that any rise of the price may interrupt it.
	LowerBids bool
	// Exchange is how long before a fleet's paid hour ends another one may be bought in its place, where machines are paid by
	// the hour; 0 = at any time of it.
	Exchange time.Duration
	// First and Last are the minutes between which runs lie.
	First, Last time.Time
	// Horizon is how long a run may take. Longer runs are not looked at.
	Horizon time.Duration
	// Reliable are the machines that must be held from beginning to end, besides the options.
	Reliable Reliable
}

// Reliable is a tier of on-demand machines that stays for the whole run. The zero value is none.
type Reliable struct {
	PerHour market.USD // all
	Rate    float64    // their work per hour; the oracle lets them work all the time
	// Stand is how long after the start they stand: nothing else can be bought before.
	Stand time.Duration
}

// Oracle is a market that has been looked at. It may be used by several goroutines.
type Oracle struct {
	cfg     Config
	grid    grid
	ladder  ladder
	startup float64 // minutes
	lambda0 float64 // dollars per unit of work; see price
}

// New looks at a market.
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

// price returns the k-th price of work, in dollars per unit: they lie a percent apart.
func (o *Oracle) price(k int) float64 { return o.lambda0 * math.Pow(lambdaStep, float64(k)) }

const (
	lambdaStep = 1.01
	lambdas    = 1100 // from a quarter of the cheapest price ever seen to 14,000 times that
)

// ladder cuts the time that a run may take into steps. A run of step j is at most end(j) long and pays at least paid(j)
// for its reliable machines.
type ladder struct {
	step    int // minutes
	steps   int
	perStep float64 // dollars
	whole   bool    // a step begun is a step paid
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
