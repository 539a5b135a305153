// Package pricelist caches what a cloud's own price list has of a region's machine types: shapes, on-demand prices and, where
// the list has them, Spot prices. An answer holds for a day, so that plans are made at once and the provider is queried
// seldom; one that is older stands in, and says so, when the provider cannot be queried.
//
// It knows nothing about how a provider is queried: that is its caller's function. It reads no clock.
package pricelist

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
)

const (
	// Fresh is how long an answer counts as current: the lists are published about daily.
	Fresh = 24 * time.Hour
	// Usable is how old an answer may be that stands in when the provider cannot be asked: on-demand prices change by the year,
	// Google's Spot prices once a month at most.
	Usable = 30 * 24 * time.Hour
)

// Offer is a machine type on sale.
type Offer struct {
	market.InstanceType
	Spot     market.USD // per hour; 0 = not in this list, or not sold
	SpotFrom time.Time  // since when that holds
}

// Book is the cache of a region's list.
type Book struct {
	Name             string // of the list, for people: "AWS Price List"
	Provider, Region string
	// Folder is where it is kept, between the processes of a user; "" = nowhere.
	Folder string
	// Ask asks the provider for the named types, or without names for all that it sells in the region. What the list does not
	// have is not in the answer.
	Ask func(ctx context.Context, names []string) ([]Offer, error)
}

// Answer is a book's answer.
type Answer struct {
	Offers []Offer   // sorted by name
	Asked  time.Time // when the oldest was requested
	Stale  error     // why it could not be requested again; nil = it was fresh
	Lost   error     // why it could not be cached; nil = it was
	book   *Book
}

// Look returns the named types, or without names all of the region, from the cache or from the provider.
func (b *Book) Look(ctx context.Context, names []string, now time.Time) (*Answer, error) {
	kept := b.read()
	if a := b.answer(kept, names, now.Add(-Fresh), now); a != nil {
		return a, nil
	}
	offers, err := b.Ask(ctx, names)
	if err != nil {
		if a := b.answer(kept, names, now.Add(-Usable), now); a != nil && ctx.Err() == nil {
			a.Stale = err
			return a, nil
		}
		return nil, err
	}
	asked := now.UTC().Truncate(time.Second)
	rows := make([]row, 0, len(kept)+len(offers))
	for _, o := range offers {
		rows = append(rows, row{Offer: o, asked: asked, whole: len(names) == 0})
	}
	if len(names) > 0 { // cached entries of other types stay
		for _, r := range kept {
			if !slices.ContainsFunc(offers, func(o Offer) bool { return o.Name == r.Name }) {
				rows = append(rows, r)
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	a := &Answer{Asked: asked, book: b, Lost: b.write(rows), Offers: slices.Clone(offers)}
	slices.SortFunc(a.Offers, func(a, b Offer) int { return strings.Compare(a.Name, b.Name) })
	return a, nil
}

// answer makes an answer from the cache since a given time; nil = that is incomplete. A type that was missing from the whole list counts as
// known.
func (b *Book) answer(kept []row, names []string, since, now time.Time) *Answer {
	current := func(r row) bool { return !r.asked.Before(since) && !r.asked.After(now) }
	whole := slices.ContainsFunc(kept, func(r row) bool { return r.whole && current(r) })
	a := &Answer{Asked: now, book: b}
	found := 0
	for _, r := range kept {
		if !current(r) || len(names) > 0 && !slices.Contains(names, r.Name) {
			continue
		}
		found++
		a.Offers = append(a.Offers, r.Offer)
		if r.asked.Before(a.Asked) {
			a.Asked = r.asked
		}
	}
	if len(names) == 0 && !whole || found == 0 || found < len(names) && !whole {
		return nil
	}
	return a
}

// Catalog returns the answer as a catalog.
func (a *Answer) Catalog() *market.Catalog {
	types := make([]market.InstanceType, 0, len(a.Offers))
	for _, o := range a.Offers {
		types = append(types, o.InstanceType)
	}
	return market.NewCatalog(a.book.Region, types)
}

// Source says where the prices come from and how old they are.
func (a *Answer) Source(now time.Time) string {
	text := fmt.Sprintf("%s of %s, asked %s", a.book.Name, a.book.Region, a.Asked.UTC().Format("2006-01-02 15:04 UTC"))
	if age := now.Sub(a.Asked); age >= time.Minute {
		text += " (" + ageText(age) + " ago)"
	}
	if a.Stale != nil {
		first, _, _ := strings.Cut(a.Stale.Error(), "\n")
		text += "; it could not be asked now: " + first
	}
	return text
}

func ageText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// DefaultFolder returns the user's cache folder; "" if the system has no such place, as for some services.
func DefaultFolder() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "tierml", "prices")
}

// row is a line of the file.
type row struct {
	Offer
	asked time.Time
	whole bool // it is from an answer that had all types
}

// The columns are a catalog's and some more, so that a cached list can be named as a job's catalog.
var columns = []string{"region", "instance_type", "vcpu", "memory_gib", "linux_ondemand_usd_hour", "arch", "spot_usd_hour", "spot_from", "asked", "whole_list"}

// safe matches provider and region names that can become a file's name.
var safe = pattern.Of(`^[a-z0-9-]+$`)

func (b *Book) path() string {
	if b.Folder == "" || !safe().MatchString(b.Provider) || !safe().MatchString(b.Region) {
		return ""
	}
	return filepath.Join(b.Folder, b.Provider+"-"+b.Region+".csv")
}

// read returns the cache. An unreadable file is no reason to fail: the provider is queried again.
func (b *Book) read() []row {
	if b.path() == "" {
		return nil
	}
	text, err := os.ReadFile(b.path())
	if err != nil {
		return nil
	}
	rows, err := parse(text, b.Region)
	if err != nil {
		return nil
	}
	return rows
}

func parse(text []byte, region string) ([]row, error) {
	catalog, err := market.ReadCatalog(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	catalog = catalog.WithGPUs(shapes.GPUOf)
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(lines[0], columns) {
		return nil, errors.New("other columns")
	}
	var rows []row
	for _, line := range lines[1:] {
		r := row{whole: line[9] == "true"}
		var known bool
		if r.InstanceType, known = catalog.Lookup(region, line[1]); !known {
			return nil, fmt.Errorf("a price of %s", line[0])
		}
		if r.asked, err = time.Parse(time.RFC3339, line[8]); err != nil {
			return nil, err
		}
		if line[6] != "" {
			if r.Spot, err = market.ParseUSD(line[6]); err != nil {
				return nil, err
			}
			if r.SpotFrom, err = time.Parse(time.RFC3339, line[7]); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// write replaces the cache atomically.
func (b *Book) write(rows []row) error {
	path := b.path()
	if path == "" {
		return nil
	}
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	_ = w.Write(columns) // errors of a buffer: none
	for _, r := range rows {
		spot, from := "", ""
		if r.Spot > 0 {
			spot, from = r.Spot.String(), r.SpotFrom.UTC().Format(time.RFC3339)
		}
		_ = w.Write([]string{b.Region, r.Name, strconv.Itoa(r.VCPU), strconv.FormatFloat(float64(r.MemoryMiB)/1024, 'f', -1, 64),
			r.OnDemand.String(), r.Arch, spot, from, r.asked.UTC().Format(time.RFC3339), strconv.FormatBool(r.whole)})
	}
	w.Flush()
	if err := replace(path, text.Bytes()); err != nil {
		return fmt.Errorf("keeping the price list: %w", err)
	}
	return nil
}

func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o644)
}
