// Package trace reads and writes price-history files: tables with the usual columns, and the output of `aws ec2
// describe-spot-price-history`, plain or compressed.
//
// It works on readers and writers and does not know where files are. A line that it cannot read is an error with its
// number. Doubtful lines (duplicates, contradictions, absurd prices) and periods that were not recorded are in a
// Summary, so that nothing is dropped silently; commands print Doubts.
package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/market"
)

// LinuxUNIX is the default product.
const LinuxUNIX = "Linux/UNIX"

// Options select what to read. The zero value reads EC2's Linux/UNIX prices.
type Options struct {
	Provider string     // provider of the pools; "" = "ec2"
	Product  string     // the only product to keep; "" = LinuxUNIX
	MaxPrice market.USD // prices above are absurd and skipped; 0 = 10,000 dollars per hour
	File     string     // for messages; "" = unnamed
	// Now is when the file is read: later rows are skipped. Zero = all count.
	Now time.Time
}

const defaultMaxPrice = 10_000 * market.Dollar

func (o Options) withDefaults() Options {
	if o.Provider == "" {
		o.Provider = "ec2"
	}
	if o.Product == "" {
		o.Product = LinuxUNIX
	}
	if o.MaxPrice == 0 {
		o.MaxPrice = defaultMaxPrice
	}
	return o
}

// Market is one pool with its prices.
type Market struct {
	Pool    market.Pool
	History *market.History
}

// Trace is the contents of a file.
type Trace struct {
	Markets []Market // sorted by pool; all are spot pools
	Summary Summary
}

// History returns the prices of a pool, or nil (which knows no price) if the file has none.
func (t *Trace) History(pool market.Pool) *market.History {
	i, ok := slices.BinarySearchFunc(t.Markets, pool, func(m Market, p market.Pool) int { return m.Pool.Compare(p) })
	if !ok {
		return nil
	}
	return t.Markets[i].History
}

// Of converts price points to markets, sorted by pool.
func Of(points map[market.Pool][]market.PricePoint) []Market {
	markets := make([]Market, 0, len(points))
	for pool, of := range points {
		markets = append(markets, Market{Pool: pool, History: market.NewHistory(of)})
	}
	slices.SortFunc(markets, func(a, b Market) int { return a.Pool.Compare(b.Pool) })
	return markets
}

// New makes a trace of markets, sorted by pool, finds their holes, and adds their points to the summary of their rows.
func New(markets []Market, rows Summary) *Trace {
	t := &Trace{Markets: markets, Summary: rows}
	for _, m := range markets {
		first, _ := m.History.First()
		last, known := m.History.Last()
		if known {
			t.Summary.Include(m.History.Len(), first.At, last.At)
		}
	}
	t.Summary.Holes = findHoles(markets)
	return t
}

// Merge merges traces. If they contradict each other, the last one wins, and the summary reports it.
func Merge(traces ...*Trace) *Trace {
	if len(traces) == 1 {
		return traces[0]
	}
	var rows Summary
	points := map[market.Pool][]market.PricePoint{}
	for _, t := range traces {
		rows.addRows(&t.Summary)
		for _, m := range t.Markets {
			last, _ := m.History.Last()
			points[m.Pool] = append(points[m.Pool], m.History.Points(time.Time{}, last.At)...)
		}
	}
	markets := Of(points)
	for _, m := range markets {
		rows.contradictions(m.Pool, points[m.Pool])
	}
	return New(markets, rows)
}

// Read reads a price history. Form and compression are recognised by the first bytes.
func Read(r io.Reader, o Options) (*Trace, error) {
	stream, err := decompress.Reader(r)
	if err != nil {
		return nil, fmt.Errorf("price history: %w", err)
	}
	defer stream.Close()
	plain := decompress.Lines(bufio.NewReader(stream))
	c := newCollector(o.withDefaults())
	if isJSON(plain) {
		err = readJSON(plain, c)
	} else {
		err = readTable(plain, c)
	}
	if err != nil {
		return nil, fmt.Errorf("price history: %w", err)
	}
	return c.trace(), nil
}

// isJSON checks after white space for the start of an object or a list.
func isJSON(r *bufio.Reader) bool {
	head, _ := r.Peek(512)
	head = bytes.TrimLeft(head, " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// LineError is a line that cannot be read.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }
