package market

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// USD is an amount in billionths of a dollar, so that ledgers add exactly. It marshals as a decimal string such as "0.239". A price is per
// hour.
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1_000_000_000

const (
	usdDecimals = 9
	cent        = Dollar / 100
)

// ParseUSD parses a decimal amount of dollars such as "0.239", exactly. It refuses everything else: signs other than a leading minus,
// exponents, currency signs, spaces, and more than nine decimals, which a USD could not hold without rounding.
func ParseUSD(s string) (USD, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if !allDigits(whole) || point && !allDigits(fraction) {
		return 0, fmt.Errorf("amount %q: want dollars as a plain decimal such as 0.239", s)
	}
	if len(fraction) > usdDecimals {
		return 0, fmt.Errorf("amount %q: at most %d decimals can be kept", s, usdDecimals)
	}
	billionths, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", usdDecimals-len(fraction)), 10, 64)
	if err != nil || billionths > math.MaxInt64 {
		return 0, fmt.Errorf("amount %q: too large", s)
	}
	if negative {
		return -USD(billionths), nil
	}
	return USD(billionths), nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// String returns the exact amount with no more decimals than it needs: "0.239", "12", "-0.5".
func (u USD) String() string {
	sign, billionths := u.split()
	var room [24]byte
	text := strconv.AppendUint(append(room[:0], sign...), billionths/uint64(Dollar), 10)
	if fraction := billionths % uint64(Dollar); fraction != 0 {
		point := len(text)
		text = strconv.AppendUint(text, uint64(Dollar)+fraction, 10) // ten digits, of which the first becomes the point
		text[point] = '.'
		text = bytes.TrimRight(text, "0")
	}
	return string(text)
}

// Cents formats the amount, rounded half away from zero to the cent: "$12.34", "-$0.50".
func (u USD) Cents() string {
	sign, billionths := u.split()
	cents := (billionths + uint64(cent)/2) / uint64(cent)
	if cents == 0 {
		sign = ""
	}
	return fmt.Sprintf("%s$%d.%02d", sign, cents/100, cents%100)
}

// For returns the cost of a time at the price u per hour: u x d / 1 h, rounded half up to the billionth (amounts below zero mirror those
// above). Whole hours are exact. It panics if the amount does not fit.
func (u USD) For(d time.Duration) USD {
	_, price := u.split()
	_, nanoseconds := USD(d).split()
	hi, lo := bits.Mul64(price, nanoseconds)
	amount, ok := divideHalfUp(hi, lo, uint64(time.Hour))
	if !ok {
		panic(fmt.Sprintf("market: %s per hour for %s is more than an amount can hold", u, d))
	}
	if (u < 0) != (d < 0) {
		return -amount
	}
	return amount
}

// divideHalfUp returns the 128-bit number (hi, lo) / by, rounded half up, and whether it fits.
func divideHalfUp(hi, lo, by uint64) (USD, bool) {
	if hi >= by {
		return 0, false
	}
	quotient, rest := bits.Div64(hi, lo, by)
	if rest >= by-rest {
		quotient++ // cannot wrap where it matters: a quotient near 2^64 does not fit anyway
	}
	return USD(quotient), quotient <= math.MaxInt64
}

// split returns the sign as text and the size, which for the smallest USD only fits unsigned.
func (u USD) split() (sign string, billionths uint64) {
	if u < 0 {
		return "-", -uint64(u)
	}
	return "", uint64(u)
}

// MarshalText returns the amount as a decimal string, for JSON and YAML.
func (u USD) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText strictly parses the result of MarshalText.
func (u *USD) UnmarshalText(b []byte) (err error) {
	*u, err = ParseUSD(string(b))
	return err
}
