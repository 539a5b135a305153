package trace

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/fuzzing"
	"github.com/tierml/tierml/market"
)

var begun = time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC)

const probes = `{"metadata": {"gap_seconds": 300}, "data": [0, 1, 1, 0, 2], "prices": [0.918, null, 0.918, 0.9, 0.9]}`

func TestReadAvailability(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(probes)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{probes, zipped.String()} {
		p, err := ReadAvailability(strings.NewReader(text), begun)
		if err != nil {
			t.Fatal(err)
		}
		tick := func(n int) time.Time { return begun.Add(time.Duration(n) * 5 * time.Minute) }
		want := []market.AvailabilityPoint{{At: tick(0)}, {At: tick(1), Count: 1}, {At: tick(3)}, {At: tick(4), Count: 2}}
		if got := p.Availability.Points(time.Time{}, tick(9)); !slices.Equal(got, want) || !p.Availability.End().Equal(tick(5)) {
			t.Errorf("%v until %s", got, p.Availability.End())
		}
		prices := []market.PricePoint{{At: tick(0), Price: 918 * market.Dollar / 1000}, {At: tick(3), Price: 9 * market.Dollar / 10}}
		if !slices.Equal(p.Prices, prices) || p.Ticks != 5 || p.Every != 5*time.Minute {
			t.Errorf("%+v", p)
		}
	}
}

func TestReadAvailabilityRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":              "EOF",
		`[]`:            "byte 2",
		`{"data": [1]}`: "gap_seconds is 0",
		probes + "x":    "more than one object",
		`{"metadata": {"gap_seconds": 60}, "data": []}`:                    "no tick",
		`{"metadata": {"gap_seconds": 60}, "data": [-1]}`:                  "a count is 0 or more",
		`{"metadata": {"gap_seconds": 60}, "data": [1.5]}`:                 "1.5",
		`{"metadata": {"gap_seconds": 60}, "data": [1], "prices": []}`:     "0 prices for 1 ticks",
		`{"metadata": {"gap_seconds": 60}, "data": [1], "prices": [-2]}`:   "tick 1: a price of -2",
		`{"metadata": {"gap_seconds": 1e9}, "data": [1], "prices": [0.1]}`: "gap_seconds is 1e+09",
	} {
		if _, err := ReadAvailability(strings.NewReader(text), begun); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func TestProbedPool(t *testing.T) {
	for file, want := range map[string]string{
		"a/b_c/us-west-2a_v100_1.json.gz": "ec2/us-west-2/us-west-2a/p3.2xlarge/spot",
		"us-central1-a_c3-88.json":        "gce/us-central1/us-central1-a/c3-88/spot",
	} {
		if p, _, err := ProbedPool(file); err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", file, p, err)
		}
	}
	for _, file := range []string{"", "_", "us-west-2a.json", "trace one_v100_1.json"} {
		if _, _, err := ProbedPool(file); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
}

func FuzzReadAvailability(f *testing.F) {
	f.Add([]byte(probes))
	f.Add([]byte(`{"metadata": {"gap_seconds": 1}, "data": [3, 0]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadAvailability(bytes.NewReader(text), begun)
		if err != nil {
			return
		}
		if p.Ticks < 1 || p.Every < time.Second || !p.Availability.End().Equal(begun.Add(time.Duration(p.Ticks)*p.Every)) {
			t.Errorf("%+v", p)
		}
		if _, known := p.Availability.At(begun); !known {
			t.Error("nothing is known at the first tick")
		}
	})
}

// A recording with an implausible number of ticks is refused before it uses much memory.
func TestProbesAreBounded(t *testing.T) {
	text := io.MultiReader(strings.NewReader(`{"metadata": {"gap_seconds": 1}, "data": [3`), &endless{piece: []byte(",0")})
	fuzzing.AtMost(t, mostProbes, 32, func() {
		if _, err := ReadAvailability(text, begun); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
			t.Errorf("of an endless recording it is said: %v", err)
		}
	})
}

// endless is a stream of the same bytes.
type endless struct {
	piece []byte
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i], e.at = e.piece[e.at], (e.at+1)%len(e.piece)
	}
	return len(p), nil
}
