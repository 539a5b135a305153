// Package local reads the recorded market that a job with cloud: local replays: spot prices and the catalog of machine types, from the
// files that the job names. It starts nothing and does not know what they are used for.
package local

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/examples/data"
	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/internal/plainfile"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/market/store"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner"
)

// Market is a recorded market.
type Market struct {
	Trace   *trace.Trace
	Catalog *market.Catalog
	// Advice is what the Spot Instance Advisor reported at AdvisedAt; nil = it was not queried.
	Advice    *advisor.Table
	AdvisedAt time.Time
	// Told is what else the provider reports about each pool; nil = nothing.
	Told map[market.Pool]bidding.Hints
	// ZoneIDs are the ids of zones if zone names are specific to an account; nil = unknown, or names are global.
	ZoneIDs map[string]string
	// Sources describes, for each kind of prices, its source and age, for people.
	Sources []string
	// Warnings are about what the account does not allow; for those about prices see Doubts.
	Warnings []string
}

// Load reads the files of a job. A file that cannot be understood is reported as config.Faults.
func Load(job *config.Job) (*Market, error) { return LoadFiles(job, []string{job.Local.Prices}) }

// WantedPrices and WantedCatalog say what to do if a file is something else.
const (
	WantedPrices = "name a price history: CSV with the columns timestamp, zone, instance_type, product, price, or the JSON of " +
		"`aws ec2 describe-spot-price-history`"
	WantedCatalog = "name a CSV file with the columns region, instance_type, vcpu, memory_gib, linux_ondemand_usd_hour"
)

// LoadFiles is Load with prices from other files, which are merged.
func LoadFiles(job *config.Job, prices []string) (*Market, error) {
	m := &Market{}
	var err error
	var traces []*trace.Trace
	if job.Local.Sampled() && job.Block == nil && slices.Equal(prices, []string{""}) {
		return sample()
	}
	for _, file := range prices {
		t, err := readPrices(file, trace.Options{Provider: job.Provider})
		if err != nil {
			return nil, job.Fault("local.prices", fmt.Sprintf("%s: %v", file, err),
				WantedPrices+", or a price store of `tierml prices`")
		}
		traces = append(traces, t)
	}
	m.Trace = trace.Merge(traces...)
	if m.Catalog, err = ReadCatalog(job.Local.Catalog); err != nil {
		return nil, job.Fault("local.catalog", fmt.Sprintf("%s: %v", job.Local.Catalog, err),
			WantedCatalog)
	}
	switch offers, skipped := m.Offers(); {
	case len(offers) > 0:
	case len(skipped) > 0:
		return nil, job.Fault("local.catalog", fmt.Sprintf("%s has none of the machine types in %s, such as %s", job.Local.Catalog,
			strings.Join(prices, ", "), skipped[0]), "name a catalog of the same region")
	default:
		return nil, job.Fault("local.prices", strings.Join(prices, ", ")+": no row has a price of Linux/UNIX that can be used"+m.Trace.Summary.Others(), WantedPrices)
	}
	if job.Local.Advisor != "" {
		if m.Advice, m.AdvisedAt, err = ReadAdvice(job.Local.Advisor); err != nil {
			return nil, job.Fault("local.advisor", fmt.Sprintf("%s: %v", job.Local.Advisor, err),
				"name the Spot Instance Advisor's spot-advisor-data.json, or leave it out")
		}
	}
	return m, nil
}

// sample returns the recording that the program carries along.
func sample() (*Market, error) {
	recording, err := data.Files.Open(data.Prices)
	if err != nil {
		return nil, err
	}
	defer recording.Close()
	prices, err := trace.Read(bufio.NewReader(recording), trace.Options{File: data.Prices})
	if err != nil {
		return nil, err
	}
	list, err := data.Files.Open(data.Catalog)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	catalog, err := market.ReadCatalog(list)
	if err != nil {
		return nil, err
	}
	return &Market{Trace: prices, Catalog: catalog.WithGPUs(shapes.GPUOf)}, nil
}

// outdated returns how old a provider's latest price may be. Compute Engine's lists are valid from a given day and change at most monthly;
// EC2 records changes, and some pool changes every day.
func outdated(provider string) time.Duration {
	if provider == "gce" {
		return 31 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// Admit refuses a job that starts before its recording knows any price.
func (m *Market) Admit(job *config.Job) error {
	var first, last time.Time
	var slack time.Duration
	for _, on := range m.Trace.Markets {
		if p, some := on.History.First(); some && (first.IsZero() || p.At.Before(first)) {
			first = p.At
		}
		if p, some := on.History.Last(); some && p.At.After(last) {
			last, slack = p.At, outdated(on.Pool.Provider)
		}
	}
	start := job.Local.Start
	if first.IsZero() || job.Installation() != nil || !start.Before(first) && !start.After(last.Add(slack)) {
		return nil
	}
	without := ""
	if absurd := m.Trace.Summary.Absurd; len(absurd) > 0 {
		without = fmt.Sprintf(", without absurd ones such as %s", &absurd[0])
	}
	return job.Fault("local.start", fmt.Sprintf("%s is outside the recorded prices, which go from %s to %s%s",
		start.Format(time.RFC3339), first.Format(time.RFC3339), last.Format(time.RFC3339), without),
		"write a time between them, with a week of prices before it for estimates")
}

// ReadAdvice reads the advisor's file. It names no date: the file's own is used.
func ReadAdvice(path string) (t *advisor.Table, at time.Time, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, at, err
	}
	err = read(path, func(r io.Reader) error {
		t, err = advisor.Read(r)
		return err
	})
	return t, info.ModTime().UTC(), err
}

// ReadPrices reads a price-history file, or all pools of a price store.
func ReadPrices(path string) (*trace.Trace, error) { return readPrices(path, trace.Options{}) }

// ReadPricesOf is ReadPrices limited to the pools of one provider.
func ReadPricesOf(path, provider string) (*trace.Trace, error) {
	return readPrices(path, trace.Options{Provider: provider})
}

func readPrices(path string, o trace.Options) (*trace.Trace, error) {
	o.File = filepath.Base(path)
	var t *trace.Trace
	isStore := false
	err := read(path, func(r io.Reader) (err error) {
		file := bufio.NewReader(r)
		head, _ := file.Peek(store.HeadLength)
		if isStore = store.IsStore(head); isStore {
			return nil
		}
		t, err = trace.Read(file, o)
		return err
	})
	if err != nil || !isStore {
		return t, err
	}
	s, err := store.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Trace(func(p market.Pool) bool { return o.Provider == "" || p.Provider == o.Provider })
}

// ReadCatalog reads a file of machine types and on-demand prices, plain or compressed. GPUs, which such files lack, are filled in.
func ReadCatalog(path string) (c *market.Catalog, err error) {
	err = read(path, func(r io.Reader) error {
		plain, err := decompress.Reader(r)
		if err != nil {
			return err
		}
		c, err = market.ReadCatalog(plain)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.WithGPUs(shapes.GPUOf), nil
}

func read(path string, f func(io.Reader) error) error {
	file, err := plainfile.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}

// Offers lists the spot pools whose type the catalog knows, sorted by pool, with their whole history: the reader must look only at what is
// known at a given time. Skipped names the types that are missing from the catalog; they cannot be offered, as their shape and on-demand
// price are unknown.
func (m *Market) Offers() (offers []planner.Offer, skipped []string) {
	for _, on := range m.Trace.Markets {
		t, ok := m.Catalog.Lookup(on.Pool.Region, on.Pool.Type)
		if !ok {
			skipped = append(skipped, on.Pool.Region+" "+on.Pool.Type)
			continue
		}
		offers = append(offers, planner.Offer{Pool: on.Pool, Type: t, History: on.History, Hints: m.hints(on.Pool)})
	}
	return offers, skipped
}

// Doubts says why the prices of some candidates are doubtful.
func (m *Market) Doubts(pools []bidding.Candidate) []string {
	return m.Trace.Doubts(func(p market.Pool) bool {
		return slices.ContainsFunc(pools, func(c bidding.Candidate) bool { return c.Pool == p })
	})
}

// hints returns what the provider says about a pool's machines; for the advisor's band, its middle.
func (m *Market) hints(p market.Pool) bidding.Hints {
	h := m.Told[p]
	if a, ok := m.Advice.Lookup(p.Region, p.Type); ok {
		h.Interruptions = bidding.Hint{Value: (a.Band.Low + a.Band.High) / 200, At: m.AdvisedAt}
	}
	return h
}
