package market

import "time"

// Estimate is a measured duration with what it rests on. Known is false when history says nothing.
type Estimate struct {
	Known    bool
	Mean     time.Duration
	Episodes int  // price crossings that the mean rests on
	Censored bool // no crossing was seen: the mean is only "at least"
}
