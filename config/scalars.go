package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
)

// Machines is a number of machines, or from Least to Most.
type Machines struct{ Least, Most int }

// Exactly returns a fixed number of machines.
func Exactly(n int) Machines { return Machines{n, n} }

// String returns "4" or "1..4".
func (m Machines) String() string {
	if m.Least == m.Most {
		return strconv.Itoa(m.Most)
	}
	return fmt.Sprintf("%d..%d", m.Least, m.Most)
}

// parseMachines reads "4" and "1..4".
func parseMachines(s string) (Machines, *mistake) {
	low, high, ranges := strings.Cut(s, "..")
	if !ranges {
		n, m := parseInt(s)
		return Exactly(n), m
	}
	least, m := parseInt(low)
	most, m2 := parseInt(high)
	switch {
	case m != nil || m2 != nil:
		return Machines{}, wrong("write 4, or 1..4", "%q is not a number of machines, nor a range", s)
	case least < 1 || most < least:
		return Machines{}, wrong("write the smaller number first, from 1 on, such as 1..4", "%q is no range", s)
	}
	return Machines{least, most}, nil
}

// CPUs is a number of vCPUs, exactly or at least.
type CPUs struct {
	Count  int
	OrMore bool
}

// Admits reports whether a machine with n vCPUs will do.
func (c CPUs) Admits(n int) bool { return c.Count == 0 || n == c.Count || c.OrMore && n > c.Count }

// String returns "4" or "4+".
func (c CPUs) String() string { return strconv.Itoa(c.Count) + plus(c.OrMore) }

// Memory is an amount of memory, exactly or at least.
type Memory struct {
	MiB    int64
	OrMore bool
}

// Admits reports whether a machine with this much memory will do.
func (m Memory) Admits(mib int64) bool { return m.MiB == 0 || mib == m.MiB || m.OrMore && mib > m.MiB }

// String returns "8GB", "7680MB+".
func (m Memory) String() string {
	if m.MiB%1024 == 0 {
		return strconv.FormatInt(m.MiB/1024, 10) + "GB" + plus(m.OrMore)
	}
	return strconv.FormatInt(m.MiB, 10) + "MB" + plus(m.OrMore)
}

// Rate is a number of floating-point operations per second.
type Rate float64

// String returns "400k", "1.5M", "12".
func (r Rate) String() string {
	for _, unit := range []struct {
		suffix string
		size   float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		// Short forms are only for values that they represent exactly.
		short := strconv.FormatFloat(float64(r)/unit.size, 'f', -1, 64)
		if back, err := strconv.ParseFloat(short, 64); err == nil && float64(r) >= unit.size && back*unit.size == float64(r) {
			return short + unit.suffix
		}
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// Quantity is a number of things.
type Quantity float64

// String returns "124M", "61706".
func (q Quantity) String() string { return Rate(q).String() }

// Bandwidth is a network link's capacity in one direction, in bytes per second.
type Bandwidth float64

// String returns "1Gbit/s", "80Mbit/s".
func (b Bandwidth) String() string { return Rate(8*b).String() + "bit/s" }

func plus(orMore bool) string {
	if orMore {
		return "+"
	}
	return ""
}

// mistake is the problem of a value and what to write instead.
type mistake struct{ problem, instead string }

func wrong(instead, problem string, args ...any) *mistake {
	return &mistake{problem: fmt.Sprintf(problem, args...), instead: instead}
}

var durationUnits = []struct {
	name string
	size time.Duration
}{
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"µs", time.Microsecond}, {"ns", time.Nanosecond},
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
}

// unitWords are usual spellings of units, with their short forms.
var unitWords = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w",
	"msec": "ms", "millisecond": "ms", "milliseconds": "ms", "s": "s", "m": "m", "h": "h", "d": "d", "w": "w", "ms": "ms",
}

var (
	decimalComma = pattern.Of(`^[0-9]+,[0-9]{1,2}$`)
	plainNumber  = pattern.Of(`^[0-9]+(\.[0-9]+)?$`)
	durationPart = pattern.Of(`^([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|w|d|h|m|s)`)
	numberWord   = pattern.Of(`^([0-9]+(?:\.[0-9]+)?) *([A-Za-z]+)$`)
)

// parseDuration reads "10s", "1h30m", "2d".
func parseDuration(s string) (time.Duration, *mistake) {
	const forms = "write a number with its unit, such as 30s, 10m, 2h or 1d12h"
	if s == "0" {
		return 0, nil
	}
	if plainNumber().MatchString(s) {
		return 0, wrong(fmt.Sprintf("write %ss, %sm or %sh", s, s, s), "%q has no unit", s)
	}
	if m := numberWord().FindStringSubmatch(s); m != nil {
		if unit, ok := unitWords[m[2]]; ok {
			s = m[1] + unit
		}
	}
	if strings.HasPrefix(s, "-") {
		return 0, wrong(forms, "%q is below zero", s)
	}
	var total float64
	for rest := s; ; {
		m := durationPart().FindStringSubmatch(rest)
		if m == nil {
			return 0, wrong(forms, "%q is not a duration", s)
		}
		number, _ := strconv.ParseFloat(m[1], 64)
		for _, unit := range durationUnits {
			if unit.name == m[2] {
				total += number * float64(unit.size)
			}
		}
		if rest = rest[len(m[0]):]; rest == "" {
			break
		}
	}
	if total > float64(100*365*24*time.Hour) {
		return 0, wrong("write at most 36500d", "%q is longer than a hundred years", s)
	}
	return time.Duration(math.Round(total)), nil
}

// formatDuration returns the shortest form that parseDuration reads back: "1h30m".
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseUSD reads "$12.50" and "12.5".
func parseUSD(s string) (market.USD, *mistake) {
	const forms = "write dollars, such as $12.50 or 0.239"
	digits := strings.TrimPrefix(s, "$")
	switch {
	case strings.HasPrefix(s, "-") || strings.HasPrefix(digits, "-"):
		return 0, wrong(forms, "%q is below zero", s)
	case decimalComma().MatchString(digits):
		return 0, wrong("write $"+strings.Replace(digits, ",", ".", 1), "%q has a comma", s)
	case strings.Contains(digits, ","):
		return 0, wrong("write $"+strings.ReplaceAll(digits, ",", ""), "%q has a comma", s)
	case strings.ContainsAny(s, "€£¥"):
		return 0, wrong(forms, "%q is not in US dollars", s)
	case !plainNumber().MatchString(digits):
		return 0, wrong(forms, "%q is not an amount of money", s)
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(fraction) > 9 {
		return 0, wrong("write at most nine digits after the point", "%q is finer than a billionth of a dollar", s)
	}
	dollars, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || dollars > 1_000_000_000 {
		return 0, wrong("write at most $1000000000", "%q is more than a billion dollars", s)
	}
	billionths, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return market.USD(dollars)*market.Dollar + market.USD(billionths), nil
}

// parseTime reads RFC 3339 times.
func parseTime(s string) (time.Time, *mistake) {
	t, err := time.Parse(time.RFC3339, s)
	if err == nil {
		if y := t.UTC().Year(); y < 1970 || y > 2200 { // nanoseconds since 1970 must fit in 64 bits
			return time.Time{}, wrong("write a year from 1970 to 2200", "%q is out of range", s)
		}
		return t.UTC(), nil
	}
	for _, layout := range []string{
		"2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04",
		"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00",
	} {
		if guess, err := time.Parse(layout, s); err == nil {
			return time.Time{}, wrong("write "+guess.Format(time.RFC3339), "%q is not a complete time", s)
		}
	}
	return time.Time{}, wrong("write it as in 2014-04-01T00:00:00Z (RFC 3339)", "%q is not a time", s)
}

var memoryForm = pattern.Of(`^([0-9]+(?:\.[0-9]+)?) ?([KMGTkmgt]i?[Bb]?)(\+?)$`)

// parseMemory reads "8GB", "7.5GB+", "512MB". GB and MB are powers of 2, as in the providers' own lists.
func parseMemory(s string) (Memory, *mistake) {
	const forms = "write it as in 8GB, 7.5GB+ (at least) or 512MB"
	if bare := strings.TrimSuffix(s, "+"); plainNumber().MatchString(bare) && !strings.HasPrefix(bare, "0") && len(bare) < 5 {
		s = bare + "GB" + s[len(bare):] // for a machine's memory nothing else can be meant
	}
	m := memoryForm().FindStringSubmatch(s)
	if m == nil {
		return Memory{}, wrong(forms, "%q is not an amount of memory", s)
	}
	number, _ := strconv.ParseFloat(m[1], 64)
	switch strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(m[2]), "B"), "I") {
	case "G":
		number *= 1024
	case "T":
		number *= 1024 * 1024
	case "K":
		return Memory{}, wrong(forms, "%q is less than a machine has", s)
	}
	mib := int64(number)
	if float64(mib) != number || mib < 1 || number > 1<<40 {
		return Memory{}, wrong(forms, "%q is not a whole number of megabytes that a machine can have", s)
	}
	return Memory{MiB: mib, OrMore: m[3] == "+"}, nil
}

// parseCPUs reads "4" and "4+".
func parseCPUs(s string) (CPUs, *mistake) {
	n, err := strconv.Atoi(strings.TrimSuffix(s, "+"))
	if err != nil || n < 1 || n > 1<<20 {
		return CPUs{}, wrong("write 4 (exactly) or 4+ (at least)", "%q is not a number of vCPUs", s)
	}
	return CPUs{Count: n, OrMore: strings.HasSuffix(s, "+")}, nil
}

var rateForm = pattern.Of(`^([0-9]+(?:\.[0-9]+)?)([kKMG]?)$`)

// parseRate reads "400k", "1.5M", "400000".
func parseRate(s string) (Rate, *mistake) {
	m := rateForm().FindStringSubmatch(s)
	if m == nil {
		return 0, wrong("write floating-point operations per second, such as 400k, 1.5M or 2G", "%q is not a rate", s)
	}
	number, _ := strconv.ParseFloat(m[1], 64)
	number *= map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[m[2]]
	if number < 1 || number > 1e18 {
		return 0, wrong("write a rate such as 400k, 1.5M or 2G", "%q is not between 1 and 1000000000G", s)
	}
	return Rate(number), nil
}

// parseQuantity reads "124M", "1.3G" and "61706".
func parseQuantity(s string) (Quantity, *mistake) {
	m := rateForm().FindStringSubmatch(strings.Replace(s, "B", "G", 1))
	if m == nil {
		return 0, wrong("write a number such as 61706, 124M or 1.3B", "%q is not a number of things", s)
	}
	number, _ := strconv.ParseFloat(m[1], 64)
	return Quantity(number * map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[m[2]]), nil
}

var bandwidthForm = pattern.Of(`^([0-9]+(?:\.[0-9]+)?) ?([kMG])(bit/s|bps|B/s)$`)

// parseBandwidth reads "1Gbit/s", "80Mbps", "10MB/s".
func parseBandwidth(s string) (Bandwidth, *mistake) {
	const forms = "write what the link carries in one direction, such as 1Gbit/s, 80Mbit/s or 10MB/s"
	m := bandwidthForm().FindStringSubmatch(s)
	if m == nil {
		return 0, wrong(forms, "%q is not a bandwidth", s)
	}
	number, _ := strconv.ParseFloat(m[1], 64)
	number *= map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9}[m[2]]
	if m[3] != "B/s" {
		number /= 8
	}
	if number < 1 || number > 1e14 {
		return 0, wrong(forms, "%q is not the bandwidth of a link", s)
	}
	return Bandwidth(number), nil
}

// parseBool reads true and false; YAML's many other spellings are refused, as parsers differ about them.
func parseBool(s string) (bool, *mistake) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	switch strings.ToLower(s) {
	case "yes", "y", "on", "1", "true":
		return false, wrong("write true", "%q is not true or false", s)
	case "no", "n", "off", "0", "false":
		return false, wrong("write false", "%q is not true or false", s)
	}
	return false, wrong("write true or false", "%q is neither", s)
}

// parseInt reads whole numbers from 0.
func parseInt(s string) (int, *mistake) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil && plainNumber().MatchString(s) && !strings.Contains(s, "."), err == nil && n > math.MaxInt32:
		return 0, wrong("write at most "+strconv.Itoa(math.MaxInt32), "%q is too large", s)
	case err != nil:
		return 0, wrong("write digits alone, such as 16", "%q is not a whole number", s)
	case n < 0:
		return 0, wrong("write digits alone, such as 16", "%q is below zero", s)
	}
	return int(n), nil
}

// parseUint reads seeds.
func parseUint(s string) (uint64, *mistake) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, wrong("write a number from 0 to 18446744073709551615", "%q is not a seed", s)
	}
	return n, nil
}

// parseNumber reads numbers from 0, with or without a fraction.
func parseNumber(s string) (float64, *mistake) {
	if rest, ok := strings.CutSuffix(s, "%"); ok && plainNumber().MatchString(rest) {
		percent, _ := strconv.ParseFloat(rest, 64)
		return 0, wrong("write "+strconv.FormatFloat(percent/100, 'f', -1, 64), "%q is a percentage", s)
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, wrong("write a number, such as 0.2 or 15", "%q is not a number", s)
	}
	if n < 0 {
		return 0, wrong("write a number above zero, such as "+strings.TrimPrefix(s, "-"), "%q is below zero", s)
	}
	return n, nil
}
