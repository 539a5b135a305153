package market

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fees are what a machine costs beside itself, from its launch to its end, whoever ends it. They are not free when the
// machine is: a disk and an address are sold apart.
type Fees struct {
	DiskGiB      int // of one machine
	DiskGiBMonth USD // per GiB and month
	Address      USD // per hour, of a public IPv4 address
}

// hoursAMonth is what providers' price pages reckon with.
const hoursAMonth = 730

// PerHour is what the fees of one machine come to per hour, rounded half up to the billionth.
func (f Fees) PerHour() USD {
	return (USD(f.DiskGiB)*f.DiskGiBMonth+hoursAMonth/2)/hoursAMonth + f.Address
}

// String gives the words that stand behind the name of a rule book, such as "+disk=20x0.08+address=0.005".
func (f Fees) String() string {
	var s string
	if f.DiskGiB > 0 {
		s += fmt.Sprintf("+disk=%dx%s", f.DiskGiB, f.DiskGiBMonth)
	}
	if f.Address > 0 {
		s += "+address=" + f.Address.String()
	}
	return s
}

// parseFees reads what String gives, in any order.
func parseFees(text string) (f Fees, err error) {
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
		default:
			err = errors.New("want disk=GIBxPRICE or address=PRICE")
		}
		if err == nil && (f.DiskGiBMonth < 0 || f.Address < 0 || f.DiskGiBMonth > 1000*Dollar) {
			err = errors.New("the price is out of range")
		}
		if err != nil {
			return f, fmt.Errorf("%q: %w", part, err)
		}
	}
	return f, nil
}

// withFees is a rule book with fees beside it.
type withFees struct {
	RuleBook
	fees Fees
}

func (b withFees) Name() string { return b.RuleBook.Name() + b.fees.String() }

// Charges begins with one line for the fees: those who ask until when a machine is paid look at the last.
func (b withFees) Charges(u Usage, h *History, asOf time.Time) ([]Charge, error) {
	charges, err := b.RuleBook.Charges(u, h, asOf)
	if err != nil || len(charges) == 0 {
		return charges, err
	}
	u, asOf, err = settle(u, asOf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	end := asOf
	if u.EndedBy != Running {
		end = u.End
	}
	line := Charge{From: u.Start, To: end, Rate: b.fees.PerHour(), Note: "disk and public address"}
	if least := u.Start.Add(minimumTime); u.EndedBy != Running && end.Before(least) {
		line.To = least
	}
	line.Amount = line.Rate.PerHour(line.To.Sub(line.From))
	return append([]Charge{line}, charges...), nil
}
