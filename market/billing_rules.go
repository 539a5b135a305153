package market

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The rule books, in the order in which Rules lists them.
var ruleBooks = []RuleBook{
	wholeHours{name: "ec2-2017"},
	perSecond{name: "ec2-now", freeWithin: time.Hour, freeNote: "interrupted in its first hour", notice: 2 * time.Minute},
	wholeHours{name: "ec2-pay-bid", payBid: true},
	perSecond{name: "gce-spot", freeWithin: time.Minute, freeNote: "preempted in its first minute", notice: 30 * time.Second},
	perSecond{name: "gce-preemptible", freeWithin: time.Minute, freeNote: "preempted in its first minute", notice: 30 * time.Second,
		maxLife: 24 * time.Hour},
}

// Rules returns the rule book with a name:
//
//   - ec2-2017: EC2 until October 2017. Whole hours counted from launch. A spot hour costs the spot price in
//     force when it begins; the last hour is paid in full when the buyer ends the machine in it, and free
//     when EC2 takes the machine back in it. An on-demand hour begun is an hour paid.
//   - ec2-pay-bid: the same, but spot hours cost the bid: the what-if that TierML (CMU-PDL-16-102) looks at.
//   - ec2-now: EC2 since. Per second at the price in force in each, with 60 seconds at least; a spot machine
//     that EC2 takes back before it has run for an hour is free.
//   - gce-spot: Google Compute Engine's Spot VMs. Per second at the price in force in each, with 60 seconds at
//     least; one that is preempted in its first minute is free.
//   - gce-preemptible: the same, and no machine lives longer than 24 hours.
//
// The name may be followed by the costs of a machine's disk and public address: "ec2-now+disk=20x0.08+address=0.005" adds 20 GiB at 0.08
// dollars a GiB and month, and 0.005 dollars an hour; "+traffic=5x0.01@us-east-1a" 5 GB an hour for machines outside that zone, at 0.01
// dollars a GB and direction; "+egress=0.05" makes a GB of state moved to another region cost this much, instead of 0.02 dollars;
// "+committed=m5.large@0.0613" says that a commitment at 0.0613 dollars an hour pays for machines of that type on demand. See Fees.
//
// A spot machine's hours never cost more than its bid. Every line's amount is its rate for the time from From to To
// (rounded half up to the billionth, see USD.For), or nothing if it is Free.
func Rules(name string) (RuleBook, error) {
	base, extra, some := strings.Cut(name, "+")
	for _, book := range ruleBooks {
		switch {
		case book.Name() != base:
		case !some:
			return withFees{book, DefaultFees()}, nil
		default:
			fees, err := parseFees(extra)
			if err != nil {
				return nil, fmt.Errorf("billing rules %q: %w", name, err)
			}
			return withFees{book, fees}, nil
		}
	}
	return nil, fmt.Errorf("billing rules %q: there are %s", name, strings.Join(RuleNames(), ", "))
}

// RuleNames lists the names that Rules accepts.
func RuleNames() []string {
	var names []string
	for _, book := range ruleBooks {
		names = append(names, book.Name())
	}
	slices.Sort(names)
	return names
}

// providerOf returns the first word of a book's name.
func providerOf(book string) string {
	provider, _, _ := strings.Cut(book, "-")
	return provider
}

// Total returns the sum of the lines.
func Total(charges []Charge) USD {
	var sum USD
	for _, c := range charges {
		sum += c.Amount
	}
	return sum
}

// Paid is the final part of a running machine's bill: its first hours.
type Paid struct {
	hours int
	sum   USD
}

// Due returns the total of a rule book's charges, as of a time. Prices until known are final; results from them are
// cached in paid, so that later calls stay fast. A nil paid caches nothing.
func Due(book RuleBook, u Usage, h *History, asOf, known time.Time, paid *Paid) (USD, error) {
	fees, covered := Fees{}, false
	if with, ok := book.(withFees); ok {
		fees, covered = with.fees, with.fees.Covers(u.Pool)
		book = with.RuleBook
	}
	hours, ok := book.(wholeHours)
	if !ok || paid == nil || covered || u.EndedBy != Running || u.Start.After(asOf.Truncate(time.Second)) {
		if fees != (Fees{}) {
			book = withFees{book, fees}
		}
		charges, err := book.Charges(u, h, asOf)
		return Total(charges), err
	}
	sum, err := hours.due(u, h, asOf, known, paid)
	if err != nil {
		return 0, err
	}
	for _, fee := range fees.lines(u, asOf.Truncate(time.Second)) {
		sum += fee.Amount
	}
	return sum, nil
}

// due returns the sum for a running machine.
func (b wholeHours) due(u Usage, h *History, asOf, known time.Time, paid *Paid) (USD, error) {
	u, asOf, err := settle(u, asOf)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", b.name, err)
	}
	last := int(asOf.Sub(u.Start) / time.Hour)
	if paid.hours > last+1 { // an earlier time than before
		paid = &Paid{}
	}
	sum := paid.sum
	for n := paid.hours; n <= last; n++ {
		from := u.Start.Add(time.Duration(n) * time.Hour)
		rate, err := b.rate(u, h, from)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", b.name, err)
		}
		sum += rate.For(time.Hour)
		if n == paid.hours && !from.After(known) {
			*paid = Paid{hours: n + 1, sum: sum}
		}
	}
	return sum, nil
}

// wholeHours bills by hours from launch.
type wholeHours struct {
	name   string
	payBid bool
}

func (b wholeHours) Name() string { return b.name }

// Terms returns the terms: EC2 accepted bids of up to ten times the on-demand price.
func (b wholeHours) Terms() Terms {
	return Terms{Provider: providerOf(b.name), Increment: time.Hour, FreeIncrement: true, PayBid: b.payBid, MaxBid: 10, Notice: 2 * time.Minute}
}

// Charges returns one line per hour. An hour is due when it begins; if the machine was reclaimed in it, this is known
// only later, and then the line becomes free.
func (b wholeHours) Charges(u Usage, h *History, asOf time.Time) ([]Charge, error) {
	u, asOf, err := settle(u, asOf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	var charges []Charge
	for from := u.Start; hourBegins(u, from, asOf); from = from.Add(time.Hour) {
		rate, err := b.rate(u, h, from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		charges = append(charges, hourCharge(u, from, rate))
	}
	return charges, nil
}

// hourBegins reports whether the hour from `from` is on the bill. The first one is due as soon as the machine exists.
func hourBegins(u Usage, from, asOf time.Time) bool {
	switch {
	case from.After(asOf):
		return false
	case u.EndedBy == Running || from.Equal(u.Start):
		return true
	default:
		return from.Before(u.End)
	}
}

func (b wholeHours) rate(u Usage, h *History, from time.Time) (USD, error) {
	if b.payBid && u.Pool.Class == Spot {
		if u.Bid <= 0 {
			return 0, fmt.Errorf("machine of %s launched %s has no bid to pay", u.Pool, u.Start.Format(time.RFC3339))
		}
		return u.Bid, nil
	}
	return priceAt(u, h, from)
}

func hourCharge(u Usage, from time.Time, rate USD) Charge {
	c := Charge{From: from, To: from.Add(time.Hour), Rate: rate}
	cutShort := u.EndedBy != Running && u.End.Before(c.To)
	switch {
	case cutShort && u.EndedBy == ByProvider && u.Pool.Class == Spot:
		c.To, c.Free, c.Note = u.End, true, "interrupted hour"
		return c
	case cutShort:
		c.Note = "begun hour paid in full"
	}
	c.Amount = rate.For(c.To.Sub(c.From))
	return c
}

// minimumTime is the minimum that EC2 and GCE bill per second.
const minimumTime = time.Minute

// perSecond bills the time used, each second at its price.
type perSecond struct {
	name       string
	freeWithin time.Duration
	freeNote   string
	notice     time.Duration
	maxLife    time.Duration
}

func (b perSecond) Name() string { return b.name }

// Terms returns the terms: a price limit is still accepted, but capacity decides.
func (b perSecond) Terms() Terms {
	return Terms{Provider: providerOf(b.name), Minimum: minimumTime, FreeWithin: b.freeWithin, Notice: b.notice, MaxLife: b.maxLife}
}

// Charges returns one line per price step. The extra charge for the minimum uses the price of the machine's last
// second, so that no price after its end (or after asOf) matters.
func (b perSecond) Charges(u Usage, h *History, asOf time.Time) ([]Charge, error) {
	u, asOf, err := settle(u, asOf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	if asOf.Before(u.Start) {
		return nil, nil
	}
	end := asOf
	if u.EndedBy != Running {
		end = u.End
	}
	charges, err := b.steps(u, h, end)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	last := &charges[len(charges)-1]
	switch {
	case u.EndedBy == ByProvider && u.Pool.Class == Spot && end.Sub(u.Start) < b.freeWithin:
		for i := range charges {
			charges[i].Free, charges[i].Note = true, b.freeNote
		}
	case end.Sub(u.Start) < minimumTime:
		last.To, last.Note = u.Start.Add(minimumTime), "60 seconds at least"
	}
	for i := range charges {
		if c := &charges[i]; !c.Free {
			c.Amount = c.Rate.For(c.To.Sub(c.From))
		}
	}
	return charges, nil
}

// steps splits [u.Start, end) where the price changes, at whole seconds: a second costs the price at its start. There is at least one step,
// which may be empty.
func (b perSecond) steps(u Usage, h *History, end time.Time) ([]Charge, error) {
	rate, err := priceAt(u, h, u.Start)
	if err != nil {
		return nil, err
	}
	charges := []Charge{{From: u.Start, To: end, Rate: rate}}
	for _, p := range h.Changes(u.Start, end) {
		from := p.At.Truncate(time.Second)
		if from.Before(p.At) {
			from = from.Add(time.Second)
		}
		if !from.Before(end) {
			break
		}
		last := &charges[len(charges)-1]
		rate := capped(u, p.Price)
		if last.From.Equal(from) {
			last.Rate = rate
			continue
		}
		if rate != last.Rate {
			last.To = from
			charges = append(charges, Charge{From: from, To: end, Rate: rate})
		}
	}
	return charges, nil
}

// settle checks a usage and reduces it to what was known at asOf: a machine that ended later was running.
func settle(u Usage, asOf time.Time) (Usage, time.Time, error) {
	asOf = asOf.Truncate(time.Second)
	if u.End.After(asOf) {
		u.End, u.EndedBy = time.Time{}, Running
	}
	return u, asOf, u.check()
}

func (u Usage) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if u.Start.IsZero() {
		fault("no start time")
	}
	if u.Start.Nanosecond() != 0 || u.End.Nanosecond() != 0 {
		fault("start %s and end %s must be whole seconds", u.Start.Format(time.RFC3339Nano), u.End.Format(time.RFC3339Nano))
	}
	if u.End.IsZero() != (u.EndedBy == Running) {
		fault("end time %s does not go with ended by %q", u.End.Format(time.RFC3339), u.EndedBy)
	}
	if !u.End.IsZero() && u.End.Before(u.Start) {
		fault("end %s is before start %s", u.End.Format(time.RFC3339), u.Start.Format(time.RFC3339))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("usage of %s: %w", u.Pool, errors.Join(errs...))
}

// priceAt returns the price of the machine at t.
func priceAt(u Usage, h *History, t time.Time) (USD, error) {
	price, known := h.At(t)
	if !known {
		return 0, fmt.Errorf("price of %s at %s is unknown: give a price history that reaches back that far",
			u.Pool, t.Format(time.RFC3339))
	}
	return capped(u, price), nil
}

// capped limits a price to the bid of a spot machine: it can only exceed it while the machine is being reclaimed.
func capped(u Usage, price USD) USD {
	if u.Pool.Class == Spot && u.Bid > 0 {
		return min(price, u.Bid)
	}
	return price
}
