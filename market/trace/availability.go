package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/market"
)

// Probes is a recording of one pool in SkyPilot's format (skypilot-org/spot-traces): how many machines were available
// (availability traces) or alive (preemption traces) at every tick, with its zone and prices.
type Probes struct {
	Availability *market.Availability
	Every        time.Duration // between ticks
	Ticks        int
	Prices       []market.PricePoint // changes only; none if the file has none
}

// mostProbes is the most bytes read of a recording: eight million ticks, each of which takes twenty times as much
// memory. A year has a hundred thousand.
const mostProbes = 16 << 20

// probeFile is the form of the file.
type probeFile struct {
	Metadata struct {
		GapSeconds float64 `json:"gap_seconds"`
	} `json:"metadata"`
	Data   []int      `json:"data"`
	Prices []*float64 `json:"prices"`
}

// ReadAvailability reads a recording, plain or compressed, whose first tick was at begin: the files contain no times.
func ReadAvailability(r io.Reader, begin time.Time) (*Probes, error) {
	p, err := readAvailability(r, begin)
	if err != nil {
		return nil, fmt.Errorf("availability: %w", err)
	}
	return p, nil
}

func readAvailability(r io.Reader, begin time.Time) (*Probes, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	var f probeFile
	text := &io.LimitedReader{R: plain, N: mostProbes + 1}
	decoder := json.NewDecoder(text)
	err = decoder.Decode(&f)
	_, end := decoder.Token()
	switch {
	case text.N == 0:
		return nil, fmt.Errorf("it has more than %d MiB unpacked: split it into recordings of some years each", mostProbes>>20)
	case err != nil:
		return nil, fmt.Errorf("byte %d: %w; want {\"metadata\": {\"gap_seconds\": 300}, \"data\": [0, 1, ...]}", decoder.InputOffset(), err)
	case !errors.Is(end, io.EOF):
		return nil, fmt.Errorf("byte %d: more than one object", decoder.InputOffset())
	}
	gap := f.Metadata.GapSeconds
	switch {
	case !(gap >= 1) || gap > 86400:
		return nil, fmt.Errorf("metadata.gap_seconds is %g: want 1 to 86400", gap)
	case len(f.Data) == 0:
		return nil, errors.New("data has no tick")
	case f.Prices != nil && len(f.Prices) != len(f.Data):
		return nil, fmt.Errorf("%d prices for %d ticks", len(f.Prices), len(f.Data))
	}
	p := &Probes{Every: time.Duration(math.Round(gap)) * time.Second, Ticks: len(f.Data)}
	points := make([]market.AvailabilityPoint, len(f.Data))
	for i, n := range f.Data {
		points[i] = market.AvailabilityPoint{At: begin.Add(time.Duration(i) * p.Every), Count: n}
	}
	p.Availability, err = market.NewAvailability(points, begin.Add(time.Duration(len(f.Data))*p.Every))
	if err != nil {
		return nil, err
	}
	p.Prices, err = tickPrices(f.Prices, points)
	return p, err
}

// tickPrices returns the changes; a tick without a price has the previous tick's.
func tickPrices(prices []*float64, points []market.AvailabilityPoint) (out []market.PricePoint, err error) {
	for i, price := range prices {
		if price == nil {
			continue
		}
		if !(*price > 0) || *price > 10_000 {
			return nil, fmt.Errorf("tick %d: a price of %g dollars", i+1, *price)
		}
		usd := market.USD(math.Round(*price * float64(market.Dollar)))
		if n := len(out); n == 0 || out[n-1].Price != usd {
			out = append(out, market.PricePoint{At: points[i].At, Price: usd})
		}
	}
	return out, nil
}

// probed are the machines in the names of SkyPilot's files, with their on-demand price at that time.
var probed = map[string]market.InstanceType{
	"k80_1":    {Name: "p2.xlarge", VCPU: 4, OnDemand: 900 * market.Dollar / 1000},
	"k80_8":    {Name: "p2.8xlarge", VCPU: 32, OnDemand: 7200 * market.Dollar / 1000},
	"v100_1":   {Name: "p3.2xlarge", VCPU: 8, OnDemand: 3060 * market.Dollar / 1000},
	"v100_8":   {Name: "p3.16xlarge", VCPU: 64, OnDemand: 24480 * market.Dollar / 1000},
	"intel_64": {Name: "r5.16xlarge", VCPU: 64, OnDemand: 4032 * market.Dollar / 1000},
}

// ProbedPool derives the pool from a file's name, such as us-west-2a_v100_1.json.gz. The type of an unknown one is the name after the zone,
// with no price.
func ProbedPool(file string) (market.Pool, market.InstanceType, error) {
	file = file[strings.LastIndexAny(file, `/\`)+1:]
	zone, kind, ok := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".json"), "_")
	if !ok || zone == "" || kind == "" || strings.ContainsAny(file, " ,") {
		return market.Pool{}, market.InstanceType{}, fmt.Errorf("file name %q: want ZONE_TYPE.json.gz, such as us-west-2a_v100_1.json.gz", file)
	}
	t, known := probed[kind]
	if !known {
		t = market.InstanceType{Name: kind, VCPU: 1}
	}
	provider, region := "ec2", ""
	if region, ok = strings.CutSuffix(zone, zone[len(zone)-1:]); !ok || strings.HasSuffix(region, "-") { // us-central1-a
		provider, region = "gce", strings.TrimSuffix(region, "-")
	}
	return market.Pool{Provider: provider, Region: region, Zone: zone, Type: t.Name, Class: market.Spot}, t, nil
}
