package store

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
)

func pool(kind string) market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: kind, Class: market.Spot}
}

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "data", "prices.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestImportsInAnyOrder: the store holds what one history of all imported points would, in whatever order they came, and reports exactly
// how many points were new and how many contradicted others.
func TestImportsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%x.db", rapid.Uint64().Draw(r, "file")))
		os.Remove(file)
		s, err := Open(file)
		if err != nil {
			r.Fatal(err)
		}
		defer s.Close()
		model := map[int64]market.USD{}
		for range rapid.IntRange(1, 5).Draw(r, "imports") {
			var points []market.PricePoint
			given := map[int64]market.USD{}
			for range rapid.IntRange(1, 20).Draw(r, "points") {
				at := rapid.Int64Range(0, 200).Draw(r, "at") * int64(24*time.Hour)
				price := market.USD(rapid.Int64Range(1, 3).Draw(r, "price"))
				points = append(points, market.PricePoint{At: time.Unix(0, at).UTC(), Price: price})
				given[at] = price
			}
			fresh, conflicts := 0, 0
			for at, price := range given {
				held, ok := model[at]
				if !ok {
					fresh++
				} else if held != price {
					conflicts++
				}
				model[at] = price
			}
			done, err := s.Import([]trace.Market{{Pool: pool("a"), History: market.NewHistory(points)}}, "test")
			if err != nil || done.New != fresh || done.Conflicts != conflicts || done.Points != len(given) {
				r.Fatalf("%+v %v; want %d new, %d conflicts of %d", done, err, fresh, conflicts, len(given))
			}
		}
		var want []market.PricePoint
		for _, at := range slices.Sorted(maps.Keys(model)) {
			want = append(want, market.PricePoint{At: time.Unix(0, at).UTC(), Price: model[at]})
		}
		h, err := s.History(pool("a"))
		if err != nil || !reflect.DeepEqual(h, market.NewHistory(want)) {
			r.Fatalf("%+v %v, want %+v", h, err, want)
		}
		entries, err := s.Entries()
		if err != nil || len(entries) != 1 || entries[0].Points != len(want) || !entries[0].First.Equal(want[0].At) ||
			!entries[0].Last.Equal(want[len(want)-1].At) {
			r.Fatalf("%+v %v", entries, err)
		}
	})
}

func TestStore(t *testing.T) {
	s := newStore(t)
	at := func(day int) time.Time { return time.Date(2016, 2, day, 1, 2, 3, 4, time.UTC) }
	history := market.NewHistory([]market.PricePoint{{At: at(1), Price: 5}, {At: at(2), Price: 7}, {At: at(40), Price: 3}})
	if entries, err := s.Entries(); entries != nil || err != nil {
		t.Fatal("an empty store", entries, err)
	}
	for _, kind := range []string{"b", "a"} {
		if _, err := s.Import([]trace.Market{{Pool: pool(kind), History: history}}, kind+".csv"); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := s.Entries()
	if err != nil || len(entries) != 2 || entries[0].Pool != pool("a") || entries[0].LongestGap != 38*24*time.Hour || !entries[0].GapFrom.Equal(at(2)) {
		t.Errorf("%+v %v", entries, err)
	}
	both, err := s.Trace(func(market.Pool) bool { return true })
	if err != nil || len(both.Markets) != 2 || both.Summary.Kept != 6 || !reflect.DeepEqual(both.History(pool("b")), history) {
		t.Errorf("%+v %v", both, err)
	}
	if none, err := s.History(pool("c")); none != nil || err != nil {
		t.Error("a pool that is not there", none, err)
	}
	late := market.NewHistory([]market.PricePoint{{At: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC), Price: 1}})
	if _, err := s.Import([]trace.Market{{Pool: pool("a"), History: late}}, "x"); err == nil || !strings.Contains(err.Error(), "2261") {
		t.Error("a year that cannot be held", err)
	}
}

// TestInUse: another process's half-written data is not read, and the error says what to do.
func TestInUse(t *testing.T) {
	s := newStore(t)
	_, err := open(s.path, &bolt.Options{Timeout: time.Nanosecond})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Error(err)
	}
	if _, err := OpenReadOnly(filepath.Join(t.TempDir(), "none.db")); err == nil || !strings.Contains(err.Error(), "tierml prices import") {
		t.Error(err)
	}
}

func TestIsStore(t *testing.T) {
	s := newStore(t)
	head, err := os.ReadFile(s.path)
	if err != nil || !IsStore(head[:20]) || !IsStore(head) {
		t.Error("a store is not known", err)
	}
	for _, text := range []string{"", "timestamp,zone,instance_type,product,price\n"} {
		if IsStore([]byte(text)) {
			t.Errorf("%q is no store", text)
		}
	}
}

// TestDamage: any changed byte of a block, and a block cut anywhere, is found.
func TestDamage(t *testing.T) {
	block := appendBlock(nil, []market.PricePoint{{At: now, Price: 5}, {At: now.Add(time.Hour), Price: 3}})
	for i := range block {
		broken := bytes.Clone(block)
		broken[i] ^= 0x10
		if points, err := readBlock(broken); err == nil {
			t.Errorf("byte %d changed: read %v", i, points)
		}
		if points, err := readBlock(block[:i]); err == nil && i > 0 {
			t.Errorf("cut at %d: read %v", i, points)
		}
	}
}

func FuzzReadBlock(f *testing.F) {
	f.Add(appendBlock(nil, []market.PricePoint{{At: now, Price: 5}, {At: now.Add(time.Hour), Price: 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		points, err := readBlock(b)
		if err != nil || len(b) == 0 {
			return
		}
		again, err := readBlock(appendBlock(nil, points))
		if err != nil || !reflect.DeepEqual(points, again) {
			t.Errorf("%v became %v (%v)", points, again, err)
		}
	})
}

// BenchmarkImport imports a year of 50 pools, a million points; BenchmarkOpen opens it and reads all of it.
func BenchmarkImport(b *testing.B) {
	markets := year()
	for b.Loop() {
		if _, err := newStore(b).Import(markets, "bench"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "points/s")
}

func BenchmarkOpen(b *testing.B) {
	s := newStore(b)
	if _, err := s.Import(year(), "bench"); err != nil {
		b.Fatal(err)
	}
	s.Close()
	for b.Loop() {
		s, err := OpenReadOnly(s.path)
		if err != nil {
			b.Fatal(err)
		}
		t, err := s.Trace(func(market.Pool) bool { return true })
		if err != nil || t.Summary.Kept != 1_000_000 {
			b.Fatal(err)
		}
		s.Close()
	}
}

func year() []trace.Market {
	var markets []trace.Market
	for i := range 50 {
		points := make([]market.PricePoint, 20_000)
		for j := range points {
			points[j] = market.PricePoint{At: now.Add(time.Duration(j*26+i) * time.Minute), Price: market.USD(j*7919%1000+100) * 100_000}
		}
		markets = append(markets, trace.Market{Pool: pool(fmt.Sprintf("m%d.large", i)), History: market.NewHistory(points)})
	}
	return markets
}
