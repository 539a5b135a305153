package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
)

// SpotShare is the spot price as a part of the on-demand price that is assumed if none was recorded: that of p3.2xlarge
// in 2023, $0.918 of $3.06.
const SpotShare = 0.3

// ErrNoPool means that the pool of a recording is unknown.
var ErrNoPool = errors.New("name its pool, as ZONE/TYPE")

// recordedOn finds a date in a path, as SkyPilot's folders have it: aws-02-15-2023.
var recordedOn = pattern.Of(`\d\d-\d\d-\d{4}`)

// ReadRecording reads a recording of availability in SkyPilot's form. Its pool is taken from the file's name, or given
// as ZONE/TYPE. Without recorded prices, spot machines cost a share of the on-demand price.
func ReadRecording(file, pool string, spotShare float64) (r Recording, err error) {
	label := file
	if pool != "" {
		label = strings.Replace(pool, "/", "_", 1)
	}
	if r.Pool, r.Type, err = trace.ProbedPool(label); err != nil {
		return r, fmt.Errorf("%w: %w", ErrNoPool, err)
	}
	if r.Type.OnDemand == 0 {
		r.Type.OnDemand = market.Dollar // costs are in hours on demand
	}
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if at, err := time.Parse("01-02-2006", recordedOn().FindString(file)); err == nil {
		begin = at
	}
	f, err := os.Open(file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	probes, err := trace.ReadAvailability(f, begin)
	if err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	r.Name, _, _ = strings.Cut(filepath.Base(file), ".")
	if folder := filepath.Base(filepath.Dir(file)); folder != "." {
		r.Name = folder + "/" + r.Name
	}
	r.Every, r.Availability, r.Machines = probes.Every, probes.Availability, probes.Availability.Most()
	points := probes.Prices
	if len(points) == 0 {
		points = []market.PricePoint{{At: begin, Price: market.USD(spotShare * float64(r.Type.OnDemand))}}
	}
	points[0].At = begin // a first tick without a price gets the next one's
	r.Prices = market.NewHistory(points)
	return r, nil
}
