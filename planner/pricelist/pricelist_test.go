package pricelist

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

func offer(name string, cents market.USD) Offer {
	return Offer{InstanceType: market.InstanceType{Name: name, Arch: market.ArchOf(name), VCPU: 4, MemoryMiB: 7680, OnDemand: cents * market.Dollar / 100}}
}

// shop is a provider that records its queries.
type shop struct {
	sells []Offer
	asked []string
	err   error
}

func (s *shop) book(folder string) *Book {
	return &Book{Name: "AWS Price List", Provider: "ec2", Region: "us-west-2", Folder: folder, Ask: func(_ context.Context, names []string) ([]Offer, error) {
		s.asked = append(s.asked, strings.Join(names, ","))
		if s.err != nil {
			return nil, s.err
		}
		return slices.DeleteFunc(slices.Clone(s.sells), func(o Offer) bool { return len(names) > 0 && !slices.Contains(names, o.Name) }), nil
	}}
}

// TestPriceListIsFetchedOnceADay plays a series of requests: a stored list is not requested again within a day, and is used if there is no
// answer.
func TestPriceListIsFetchedOnceADay(t *testing.T) {
	away := errors.New("no way to the price list\nand more words")
	spot := offer("m5.large", 9)
	spot.Spot, spot.SpotFrom = market.Dollar/50, start.Add(-40*24*time.Hour)
	s := &shop{sells: []Offer{offer("c5.large", 8), spot, offer("m6g.large", 7)}}
	folder := filepath.Join(t.TempDir(), "new", "prices")
	for _, c := range []struct {
		what   string
		names  []string
		after  time.Duration
		away   bool
		asked  string // "-" = nobody
		got    string
		source string
	}{
		{"first", []string{"c5.large"}, 0, false, "c5.large", "c5.large", "AWS Price List of us-west-2, asked 2026-11-22 10:00 UTC"},
		{"again", []string{"c5.large"}, 5 * time.Hour, false, "-", "c5.large", "asked 2026-11-22 10:00 UTC (5 h ago)"},
		{"one more", []string{"c5.large", "m5.large"}, 6 * time.Hour, false, "c5.large,m5.large", "c5.large,m5.large", "asked 2026-11-22 16:00 UTC"},
		{"a type that is not sold", []string{"z1.large"}, 6 * time.Hour, false, "z1.large", "", ""},
		{"all", nil, 6*time.Hour + 30*time.Minute, false, "", "c5.large,m5.large,m6g.large", "asked 2026-11-22 16:30 UTC"},
		{"one of all", []string{"m6g.large"}, 7 * time.Hour, false, "-", "m6g.large", "(30 min ago)"},
		{"one that all did not have", []string{"m6g.large", "z1.large"}, 7 * time.Hour, false, "-", "m6g.large", ""},
		{"a day later", []string{"m6g.large"}, 31 * time.Hour, false, "m6g.large", "m6g.large", "asked 2026-11-23 17:00 UTC"},
		{"nobody answers", nil, 10 * 24 * time.Hour, true, "", "c5.large,m5.large,m6g.large", "(10 days ago); it could not be asked now: no way to the price list"},
		{"too old", nil, 60 * 24 * time.Hour, true, "", "!", ""},
		{"from the past", nil, -time.Hour, true, "", "!", ""},
	} {
		if s.asked, s.err = nil, nil; c.away {
			s.err = away
		}
		now := start.Add(c.after)
		a, err := s.book(folder).Look(t.Context(), c.names, now) // a new process each time
		if asked := strings.Join(s.asked, ";"); c.asked == "-" && s.asked != nil || c.asked != "-" && (asked != c.asked || s.asked == nil) {
			t.Errorf("%s: asked for %q, want %q", c.what, s.asked, c.asked)
		}
		if c.got == "!" {
			if !errors.Is(err, away) {
				t.Errorf("%s: %v, %v", c.what, a, err)
			}
			continue
		}
		if err != nil || a.Lost != nil {
			t.Fatalf("%s: %v, %v", c.what, err, a.Lost)
		}
		var names []string
		for _, o := range a.Offers {
			names = append(names, o.Name)
			want := s.sells[slices.IndexFunc(s.sells, func(x Offer) bool { return x.Name == o.Name })]
			if diff := cmp.Diff(want, o); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.what, diff)
			}
			if kind, ok := a.Catalog().Lookup("us-west-2", o.Name); !ok || kind != o.InstanceType {
				t.Errorf("%s: the catalog has %+v", c.what, kind)
			}
		}
		if got := strings.Join(names, ","); got != c.got || !strings.Contains(a.Source(now), c.source) {
			t.Errorf("%s: %s from %q, want %s from %q", c.what, got, a.Source(now), c.got, c.source)
		}
	}
}

// A stored list can be named as a catalog; a broken or unwritable one is not an error.
func TestStoredListIsACatalog(t *testing.T) {
	folder := t.TempDir()
	s := &shop{sells: []Offer{offer("c5.large", 8)}}
	if _, err := s.book(folder).Look(t.Context(), nil, start); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "ec2-us-west-2.csv")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := market.ReadCatalog(strings.NewReader(string(text))); err != nil || len(c.Types("us-west-2")) != 1 {
		t.Errorf("as a catalog: %v, %v", c, err)
	}
	for _, broken := range []string{"", "region\n", string(text[:len(text)-12]), strings.Replace(string(text), "us-west-2", "us-east-1", 1),
		strings.Replace(string(text), "0.08", "much", 1), strings.Replace(string(text), "2026-11", "then", 1)} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		s.asked = nil
		if a, err := s.book(folder).Look(t.Context(), nil, start); err != nil || len(a.Offers) != 1 || len(s.asked) != 1 {
			t.Errorf("%q: %v, asked %d times", broken, err, len(s.asked))
		}
	}
	if a, err := s.book(filepath.Join(path, "below")).Look(t.Context(), nil, start); err != nil || a.Lost == nil {
		t.Errorf("a folder that cannot be: %v", err)
	}
	if a, err := s.book("").Look(t.Context(), nil, start); err != nil || a.Lost != nil {
		t.Errorf("no folder: %v", err)
	}
}
