package market

import "time"

// PricePoint is a price per hour from an instant on.
type PricePoint struct {
	At    time.Time
	Price USD
}

// History is a pool's price as a step function: each point's price holds until the next point.
// Before the first point the price is unknown.
type History struct {
	points []PricePoint // sorted by At, no two at the same instant
}
