// Package savecost measures how long a machine takes to save a model into a store.
package savecost

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/checkpoint"
)

// generated are rows of this many bytes, the same piece again and again: a model that is larger than the memory can be
// saved.
type generated struct {
	left  int64
	piece ps.Block
}

func rowsOf(bytes int64) *generated {
	g := &generated{left: bytes}
	for i := range 500 {
		g.piece.Keys = append(g.piece.Keys, ps.Key{Row: ps.RowID(i)})
		for j := range 128 {
			g.piece.Values = append(g.piece.Values, float32(math.Sin(float64(128*i+j))))
		}
	}
	return g
}

func (g *generated) Next(int) (ps.Block, error) {
	if g.left <= 0 {
		return ps.Block{}, nil
	}
	g.left -= int64(8*len(g.piece.Keys) + 4*len(g.piece.Values))
	return g.piece, nil
}

// TestSaveCost measures how long one machine takes to save models of some sizes into a store, as an agent does by kill and restart: rows
// to an object, with checksums, and a manifest. It prints the line of least squares through the times. `make -C lab save-cost`.
func TestSaveCost(t *testing.T) {
	endpoint, sizes := os.Getenv("TIERML_VERSITYGW_ENDPOINT"), strings.Fields(os.Getenv("TIERML_SAVE_GB"))
	if endpoint == "" || len(sizes) == 0 {
		t.Skip("it takes gigabytes and minutes: make -C lab save-cost")
	}
	place := "s3://tierml/cost?region=us-east-1&endpoint=" + endpoint
	var x, y []float64
	for _, word := range sizes {
		gb, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			begun := time.Now()
			saveOnce(t, place, int64(gb*1e9))
			x, y = append(x, gb), append(y, time.Since(begun).Seconds())
			fmt.Printf("%5.2f GB  %7.2f s\n", gb, y[len(y)-1])
		}
	}
	at, perGB := line(x, y)
	fmt.Printf("seconds = %.2f + %.2f x GB: %.0f MB/s\n", at, perGB, 1000/perGB)
}

// saveOnce saves and removes a checkpoint.
func saveOnce(t *testing.T, place string, bytes int64) {
	t.Helper()
	const folder = "clock-000000010-1.1"
	schema := ps.Schema{Tables: []ps.Table{{Name: "factors", Rows: 500, Cols: 128, Rule: ps.Rule{Name: ps.Add}}}, Partitions: 1, Splits: 1}
	parts, err := checkpoint.SaveParts(t.Context(), location.Join(place, folder), "rows", []checkpoint.Source{{Rows: rowsOf(bytes)}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := checkpoint.NewManifest("cost-1", &schema, 10, folder, parts)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := m.Write(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{location.Join(place, folder, "rows"), manifest} {
		if err := blob.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSaveOnce: what is measured leaves nothing behind, so that it can be repeated.
func TestSaveOnce(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("tierml"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	place := "s3://tierml/cost?region=us-east-1&anonymous=true&endpoint=" + server.URL
	saveOnce(t, place, 20e6)
	if left, err := blob.List(t.Context(), place); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// line returns that of least squares: y = at + slope x.
func line(x, y []float64) (at, slope float64) {
	var mx, my, xx, xy float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(y))
	}
	for i := range x {
		xx, xy = xx+(x[i]-mx)*(x[i]-mx), xy+(x[i]-mx)*(y[i]-my)
	}
	if xx == 0 {
		return 0, my / mx
	}
	return my - xy/xx*mx, xy / xx
}

func TestLine(t *testing.T) {
	if at, slope := line([]float64{0.1, 2, 5}, []float64{1.3, 7, 16}); math.Abs(at-1) > 1e-9 || math.Abs(slope-3) > 1e-9 {
		t.Errorf("%g + %g x", at, slope)
	}
	if at, slope := line([]float64{2, 2}, []float64{5, 7}); at != 0 || slope != 3 {
		t.Errorf("of one size %g + %g x", at, slope)
	}
}
