package market

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseUSD(t *testing.T) {
	for _, c := range []struct {
		in   string
		want USD
		out  string
	}{
		{"0.239", 239_000_000, "0.239"},
		{"12", 12 * Dollar, "12"},
		{"0.000000001", 1, "0.000000001"},
		{"1.50", 1_500_000_000, "1.5"},
		{"-0.5", -500_000_000, "-0.5"},
		{"0", 0, "0"},
		{"-0", 0, "0"},
		{"007.10", 7_100_000_000, "7.1"},
		{"9223372036.854775807", math.MaxInt64, "9223372036.854775807"},
	} {
		got, err := ParseUSD(c.in)
		if err != nil || got != c.want || got.String() != c.out {
			t.Errorf("ParseUSD(%q) = %d (%s), %v; want %d (%s)", c.in, got, got, err, c.want, c.out)
		}
	}
	for _, in := range []string{
		"", ".", ".5", "5.", "+1", "--1", "1e3", "$1", " 1", "1 ", "1,000", "1.2.3", "0x1", "NaN", "½",
		"0.0000000001", "0.1000000000", "9223372036.854775808", "99999999999999999999999",
	} {
		if got, err := ParseUSD(in); err == nil {
			t.Errorf("ParseUSD(%q) = %s, want an error", in, got)
		}
	}
}

func TestUSDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := USD(rapid.Int64Min(-math.MaxInt64).Draw(t, "u"))
		got, err := ParseUSD(u.String())
		if err != nil || got != u {
			t.Fatalf("%d prints as %s, reads as %d, %v", u, u, got, err)
		}
		b, err := json.Marshal(map[string]USD{"u": u})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]USD
		if err := json.Unmarshal(b, &back); err != nil || back["u"] != u {
			t.Fatalf("JSON %s reads as %d, %v", b, back["u"], err)
		}
	})
	if s := USD(math.MinInt64).String(); s != "-9223372036.854775808" {
		t.Errorf("smallest amount prints as %s", s)
	}
	var u USD
	if err := json.Unmarshal([]byte(`0.5`), &u); err == nil {
		t.Error("a JSON number was read as an amount: it may have been rounded already")
	}
}

func TestCents(t *testing.T) {
	for _, c := range []struct {
		in   USD
		want string
	}{
		{12_340_000_000, "$12.34"},
		{5_000_000, "$0.01"},
		{4_999_999, "$0.00"},
		{-4_999_999, "$0.00"},
		{-500_000_000, "-$0.50"},
		{-5_000_000, "-$0.01"},
		{1234 * Dollar, "$1234.00"},
		{1_999_999_999, "$2.00"},
	} {
		if got := c.in.Cents(); got != c.want {
			t.Errorf("%s in cents is %s, want %s", c.in, got, c.want)
		}
	}
}

func TestFor(t *testing.T) {
	for _, c := range []struct {
		price USD
		d     time.Duration
		want  USD
	}{
		{239_000_000, time.Hour, 239_000_000},
		{239_000_000, 90 * time.Minute, 358_500_000},
		{1, 30 * time.Minute, 1},                           // half goes up
		{1, 30*time.Minute - 1, 0},                         // less does not
		{1, 90 * time.Minute, 2},                           // 1.5
		{100_000_000, time.Second, 27_778},                 // 27777.7…
		{-1, 30 * time.Minute, -1},                         // mirrored
		{1000 * Dollar, 1e5 * time.Hour, 1e8 * Dollar / 1}, // more than 64 bits on the way
		{0, time.Hour, 0},
		{Dollar, 0, 0},
	} {
		if got := c.price.For(c.d); got != c.want {
			t.Errorf("%s per hour for %s is %s, want %s", c.price, c.d, got, c.want)
		}
	}
}

// TestForAgainstBig compares with arithmetic that cannot overflow.
func TestForAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Int64Range(0, int64(1000*Dollar)).Draw(t, "price")
		d := rapid.Int64Range(0, int64(1e5*time.Hour)).Draw(t, "d")
		n := new(big.Int).Mul(big.NewInt(price), big.NewInt(d))
		n.Add(n, big.NewInt(int64(time.Hour)/2))
		n.Div(n, big.NewInt(int64(time.Hour)))
		if got := USD(price).For(time.Duration(d)); got != USD(n.Int64()) {
			t.Fatalf("%d per hour for %d is %d, want %s", price, d, got, n)
		}
	})
}

func TestForPanicsOnOverflow(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an amount that does not fit was given")
		}
	}()
	t.Log(USD(math.MaxInt64).For(2 * time.Hour))
}
