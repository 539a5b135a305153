package market

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Fees are a machine's costs other than its hours, from its launch to its end, by either side. They apply even when the machine is free: a
// disk and an address are sold separately.
type Fees struct {
	DiskGiB      int // per machine
	DiskGiBMonth USD // per GiB and month
	Address      USD // per hour, for a public IPv4 address
	// Traffic crosses zones' borders: megabytes per hour and machine outside Home, to and from machines there,
	// each billed twice, as it leaves a zone and as it enters one.
	TrafficMB int
	TrafficGB USD // per gigabyte and direction
	Home      string
	// Egress is the cost of a gigabyte that leaves a region for another. It is billed in the region that it leaves.
	Egress USD // per gigabyte
	// Committed is the type whose on-demand machines are covered by a Savings Plan, a reservation or a committed use
	// discount, and CommittedPrice its hourly price. It is paid whether they run or not: a bill shows it and adds
	// nothing.
	Committed      string
	CommittedPrice USD
}

// usualEgress is EC2's price between most of its regions (EC2 On-Demand Pricing, "Data Transfer OUT From Amazon EC2 To"), and Compute
// Engine's between its regions of North America (VPC network pricing): $0.02 per gigabyte. Within a region state moves through the region's
// object store, which is free on both.
const usualEgress = 2 * Dollar / 100

// DefaultFees returns the fees of a rule book whose name has none.
func DefaultFees() Fees { return Fees{Egress: usualEgress} }

// Moving returns the cost of fetching bytes of state from another region, rounded half up to the billionth.
func (f Fees) Moving(bytes int64) USD {
	hi, lo := bits.Mul64(uint64(f.Egress), uint64(max(bytes, 0)))
	amount, ok := divideHalfUp(hi, lo, 1e9)
	if !ok {
		panic(fmt.Sprintf("market: %d bytes at %s a gigabyte are more than an amount can hold", bytes, f.Egress))
	}
	return amount
}

// Covers reports whether a commitment pays for a pool's machines.
func (f Fees) Covers(p Pool) bool {
	return p.Class == OnDemand && f.Committed != "" && p.Type == f.Committed
}

// Due returns what an hour of a pool's machines adds to a bill at a price.
func (f Fees) Due(p Pool, price USD) USD {
	if f.Covers(p) {
		return 0
	}
	return price
}

// CommittedNote marks bill lines that a commitment pays. Their rate is the commitment's, their amount 0.
const CommittedNote = "committed: paid anyway"

// MovedNote marks the bill line for state that came from another region. It has no duration, and so no rate.
const MovedNote = "state from another region"

// Notes of the lines for a disk and an address, and for traffic: bills list these separately from the machine.
const (
	upkeepNote  = "disk and public address"
	TrafficNote = "traffic between zones, as declared"
)

// OfMachine reports whether a line with a note is for the machine's own hours.
func OfMachine(note string) bool {
	return note != upkeepNote && note != TrafficNote && note != MovedNote
}

// hoursAMonth is the assumption of providers' price pages.
const hoursAMonth = 730

// PerHour returns the fees of one machine per hour, rounded half up to the billionth.
func (f Fees) PerHour() USD {
	return (USD(f.DiskGiB)*f.DiskGiBMonth+hoursAMonth/2)/hoursAMonth + f.Address
}

// TrafficPerHour returns the hourly price of a machine's traffic in a zone, rounded half up to the billionth. EC2
// charges $0.01 per GB "in each direction" between zones of a region (EC2 On-Demand Pricing, "Data Transfer within the
// same AWS Region"), and so the owner of both machines pays twice; Compute Engine $0.01 per GiB that leaves (VPC
// network pricing), so half of it.
func (f Fees) TrafficPerHour(zone string) USD {
	if zone == f.Home {
		return 0
	}
	return (2*USD(f.TrafficMB)*f.TrafficGB + 500) / 1000
}

// zoneTraffic is the price of a gigabyte that crosses zones in each direction, by provider: see TrafficPerHour.
var zoneTraffic = map[string]USD{"ec2": Dollar / 100, "gce": Dollar / 200}

// Crossing returns the name of a rule book that also charges each machine outside a zone for megabytes per hour across
// the zone's border, at a provider's price. Traffic that the name declares is unchanged.
func Crossing(book, provider string, megabytes int, home string) string {
	price := zoneTraffic[provider]
	if megabytes < 1 || price == 0 || strings.Contains(book, "+traffic=") {
		return book
	}
	return book + Fees{TrafficMB: megabytes, TrafficGB: price, Home: home, Egress: usualEgress}.String()
}

// String returns the suffix of the name of a rule book, such as "+disk=20x0.08+address=0.005".
func (f Fees) String() string {
	var s string
	if f.DiskGiB > 0 {
		s += fmt.Sprintf("+disk=%dx%s", f.DiskGiB, f.DiskGiBMonth)
	}
	if f.Address > 0 {
		s += "+address=" + f.Address.String()
	}
	if f.TrafficMB > 0 {
		s += fmt.Sprintf("+traffic=%sx%s@%s", strconv.FormatFloat(float64(f.TrafficMB)/1000, 'f', -1, 64), f.TrafficGB, f.Home)
	}
	if f.Egress != usualEgress {
		s += "+egress=" + f.Egress.String()
	}
	if f.Committed != "" {
		s += fmt.Sprintf("+committed=%s@%s", f.Committed, f.CommittedPrice)
	}
	return s
}

// parseFees parses the result of String, in any order.
func parseFees(text string) (f Fees, err error) {
	f = DefaultFees()
	for _, part := range strings.Split(text, "+") {
		what, value, _ := strings.Cut(part, "=")
		switch what {
		case "disk":
			size, price, _ := strings.Cut(value, "x")
			if f.DiskGiB, err = strconv.Atoi(size); err != nil || f.DiskGiB < 1 || f.DiskGiB > 1<<16 {
				return f, fmt.Errorf("%q: want a size in GiB and a price per GiB and month, such as disk=20x0.08", part)
			}
			f.DiskGiBMonth, err = ParseUSD(price)
		case "address":
			f.Address, err = ParseUSD(value)
		case "traffic":
			err = f.parseTraffic(value)
		case "egress":
			f.Egress, err = ParseUSD(value)
		case "committed":
			err = f.parseCommitted(value)
		default:
			err = errors.New("want disk=GIBxPRICE, address=PRICE, traffic=GBxPRICE@ZONE, egress=PRICE or committed=TYPE@PRICE")
		}
		if err == nil && (f.DiskGiBMonth < 0 || f.Address < 0 || f.TrafficGB < 0 || f.Egress < 0 || f.CommittedPrice < 0 || f.DiskGiBMonth > 1000*Dollar || f.TrafficGB > 1000*Dollar || f.Egress > 1000*Dollar ||
			f.CommittedPrice > 1000*Dollar) {
			err = errors.New("the price is out of range")
		}
		if err != nil {
			return f, fmt.Errorf("%q: %w", part, err)
		}
	}
	return f, nil
}

// parseTraffic reads "5x0.01@us-east-1a".
func (f *Fees) parseTraffic(text string) error {
	amount, zone, _ := strings.Cut(text, "@")
	volume, price, _ := strings.Cut(amount, "x")
	gb, err := strconv.ParseFloat(volume, 64)
	if err != nil || !(gb >= 0.001) || gb > 1e6 || zone == "" {
		return errors.New("want gigabytes per hour of a machine in another zone, a price per gigabyte and direction, and the zone of " +
			"the reliable machines, such as traffic=5x0.01@us-east-1a")
	}
	f.TrafficMB, f.Home = int(gb*1000+0.5), zone
	f.TrafficGB, err = ParseUSD(price)
	return err
}

// parseCommitted reads "m5.large@0.0613".
func (f *Fees) parseCommitted(value string) (err error) {
	kind, price, _ := strings.Cut(value, "@")
	if kind == "" || price == "" {
		return errors.New("want a machine type and what an hour of one costs under the commitment, such as committed=m5.large@0.0613")
	}
	f.Committed = kind
	f.CommittedPrice, err = ParseUSD(price)
	return err
}

// withFees is a rule book with fees.
type withFees struct {
	RuleBook
	fees Fees
}

// WithFeesTimes returns one of Rules' books with each machine's fees multiplied.
func WithFeesTimes(book RuleBook, times float64) RuleBook {
	b, ok := book.(withFees)
	if !ok {
		return book
	}
	for _, price := range []*USD{&b.fees.DiskGiBMonth, &b.fees.Address, &b.fees.TrafficGB} {
		*price = USD(float64(*price)*times + 0.5)
	}
	return b
}

func (b withFees) Name() string { return b.RuleBook.Name() + b.fees.String() }

func (b withFees) Terms() Terms {
	t := b.RuleBook.Terms()
	t.Fees = b.fees
	return t
}

// Charges begins with lines for the fees: callers look at the last line for the end of a machine's paid time.
func (b withFees) Charges(u Usage, h *History, asOf time.Time) ([]Charge, error) {
	charges, err := b.RuleBook.Charges(u, h, asOf)
	if err != nil || len(charges) == 0 {
		return charges, err
	}
	if b.fees.Covers(u.Pool) {
		for i := range charges {
			charges[i].Rate, charges[i].Amount, charges[i].Free, charges[i].Note = b.fees.CommittedPrice, 0, true, CommittedNote
		}
	}
	u, asOf, err = settle(u, asOf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	end := asOf
	if u.EndedBy != Running {
		end = u.End
	}
	if least := u.Start.Add(minimumTime); u.EndedBy != Running && end.Before(least) {
		end = least
	}
	return append(b.fees.lines(u, end), charges...), nil
}

// lines returns the lines of a bill until a time.
func (f Fees) lines(u Usage, end time.Time) (lines []Charge) {
	for _, fee := range [...]Charge{
		{Rate: f.PerHour(), Note: upkeepNote},
		{Rate: f.TrafficPerHour(u.Pool.Zone), Note: TrafficNote},
	} {
		if fee.Rate > 0 {
			fee.From, fee.To, fee.Amount = u.Start, end, fee.Rate.For(end.Sub(u.Start))
			lines = append(lines, fee)
		}
	}
	if u.Moved > 0 {
		lines = append(lines, Charge{From: u.Start, To: end, Amount: f.Moving(u.Moved), Note: MovedNote})
	}
	return lines
}
