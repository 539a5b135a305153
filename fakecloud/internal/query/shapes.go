package query

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// set is EC2's form of a list: <nameSet><item>...</item></nameSet>.
type set[T any] struct {
	Items []T `xml:"item"`
}

func setOf[S, T any](from []S, convert func(S) T) set[T] {
	var s set[T]
	for _, f := range from {
		s.Items = append(s.Items, convert(f))
	}
	return s
}

// stamp is a time in EC2's form.
type stamp time.Time

func (t stamp) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z")), nil
}

// optional is a time that may be absent.
func optional(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagSet(tags map[string]string) *set[tag] {
	if len(tags) == 0 {
		return nil
	}
	s := new(set[tag])
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		s.Items = append(s.Items, tag{key, tags[key]})
	}
	return s
}

// done is the response of actions without a result.
type done struct {
	header
	Return bool `xml:"return"`
}

// priceText formats prices as EC2 does: six decimals, or more if needed.
func priceText(price market.USD) string {
	whole, fraction := price/market.Dollar, price%market.Dollar
	if fraction%1000 == 0 {
		return fixed(whole, fraction/1000, 6)
	}
	return fixed(whole, fraction, 9)
}

func fixed(whole, fraction market.USD, digits int) string {
	text := make([]byte, digits)
	for i := digits - 1; i >= 0; i-- {
		text[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	return (whole * market.Dollar).String() + "." + string(text)
}
