package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// header names the columns of the CSV form. Times are RFC 3339 UTC, prices dollars per instance hour.
var header = []string{"timestamp", "zone", "instance_type", "product", "price"}

// csvError converts the csv package's errors to our form; errors that are not about a line are returned unchanged.
// Width is the number of fields of the first line.
func csvError(err error, width int) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	if errors.Is(parse.Err, csv.ErrFieldCount) {
		return &LineError{Line: parse.Line, Err: fmt.Errorf("want %d fields, as in the first line", width)}
	}
	return &LineError{Line: parse.Line, Err: parse.Err}
}

// Write writes markets in the CSV form, rows sorted by time, then zone and type. Read reads its output back equal if product is
// Options.Product and the markets are of EC2.
func Write(w io.Writer, product string, markets []Market) error {
	type entry struct {
		point market.PricePoint
		pool  market.Pool
	}
	var entries []entry
	for _, m := range markets {
		last, _ := m.History.Last()
		for _, p := range m.History.Points(time.Time{}, last.At) {
			entries = append(entries, entry{p, m.Pool})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		if order := a.point.At.Compare(b.point.At); order != 0 {
			return order
		}
		return a.pool.Compare(b.pool)
	})
	rows := csv.NewWriter(w)
	// Errors stay with the writer until Flush; Error returns the first.
	rows.Write(header)
	for _, e := range entries {
		rows.Write([]string{e.point.At.UTC().Format(time.RFC3339Nano), e.pool.Zone, e.pool.Type, product, e.point.Price.String()})
	}
	rows.Flush()
	if err := rows.Error(); err != nil {
		return fmt.Errorf("writing price history: %w", err)
	}
	return nil
}
