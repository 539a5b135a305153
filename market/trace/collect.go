package trace

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
)

// Summary describes a file apart from the prices that were taken from it.
type Summary struct {
	Rows          int       // rows in the file
	Kept          int       // price points in the markets
	OtherProducts int       // rows of other products, ignored
	Products      []string  // their names
	NoProduct     bool      // the file names no product: the requested one is assumed
	Future        int       // rows after Options.Now, skipped
	Duplicates    int       // rows that repeat an earlier row exactly, dropped
	Rounded       int       // prices with more than nine decimals, rounded to that
	Conflicts     []RowNote // rows with another price for the same market and instant; the last one wins
	Absurd        []RowNote // prices of 0, below 0 or above Options.MaxPrice, skipped
	Holes         []Hole    // periods for which prices were not recorded, longest first
	First, Last   time.Time // range of the points; zero without any
}

// Include counts points of a market, and the range that they span.
func (s *Summary) Include(points int, first, last time.Time) {
	s.Kept += points
	if s.First.IsZero() || first.Before(s.First) {
		s.First = first
	}
	if last.After(s.Last) {
		s.Last = last
	}
}

// RowNote is a row that deserves attention.
type RowNote struct {
	File  string // "" = unnamed
	Line  int    // 0 = not one row: files contradict each other
	Pool  market.Pool
	At    time.Time
	Price market.USD
}

// Clean reports whether nothing was skipped, doubtful or missing.
func (s *Summary) Clean() bool {
	return s.Duplicates == 0 && s.Rounded == 0 && len(s.Conflicts) == 0 && len(s.Absurd) == 0 && len(s.Holes) == 0
}

// String returns one line for display.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d prices of %d rows", s.Kept, s.Rows)
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.OtherProducts, "of other products (" + strings.Join(s.Products, ", ") + ")"},
		{s.Future, "of a time to come, left out"},
		{s.Duplicates, "duplicate"},
		{s.Rounded, "rounded to nine decimals"},
		{len(s.Conflicts), "contradicting an earlier row"},
		{len(s.Absurd), "with an absurd price"},
		{len(s.Holes), "holes"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %d %s", part.n, part.what)
		}
	}
	return b.String()
}

// row is one line of a file, as text.
type row struct {
	line                                  int
	timestamp, zone, kind, product, price string
}

// collector gathers rows into markets.
type collector struct {
	options Options
	summary Summary
	markets map[marketKey]*series
}

type marketKey struct{ zone, kind string }

type series struct {
	pool   market.Pool
	points []market.PricePoint // in file order
	lines  []int               // line of each point
}

func newCollector(o Options) *collector {
	return &collector{options: o, markets: make(map[marketKey]*series)}
}

func (c *collector) add(r row) error {
	if err := c.tryAdd(r); err != nil {
		return &LineError{Line: r.line, Err: err}
	}
	return nil
}

func (c *collector) tryAdd(r row) error {
	c.summary.Rows++
	at, err := parseTime(r.timestamp)
	if err != nil {
		return err
	}
	if year := at.Year(); year < 1970 || year > 9999 {
		return fmt.Errorf("timestamp %q: want a year from 1970 to 9999", r.timestamp)
	}
	price, rounded, err := parsePrice(r.price)
	if err != nil {
		return fmt.Errorf("price: %w", err)
	}
	if r.product == "" {
		return errors.New("product is empty")
	}
	product := strings.TrimSuffix(r.product, onVPC)
	if strings.EqualFold(product, "linux") || strings.EqualFold(product, LinuxUNIX) {
		product = LinuxUNIX
	}
	if product != strings.TrimSuffix(c.options.Product, onVPC) {
		c.summary.OtherProducts++
		if !slices.Contains(c.summary.Products, product) {
			c.summary.Products = append(c.summary.Products, strings.Clone(product))
		}
		return nil
	}
	if !c.options.Now.IsZero() && at.After(c.options.Now.Add(24*time.Hour)) { // allows for clocks and time zones
		c.summary.Future++
		return nil
	}
	s, err := c.series(r.zone, r.kind)
	if err != nil {
		return err
	}
	if price <= 0 || price > c.options.MaxPrice {
		c.summary.Absurd = append(c.summary.Absurd, RowNote{c.options.File, r.line, s.pool, at, price})
		return nil
	}
	if rounded {
		c.summary.Rounded++
	}
	s.points = append(s.points, market.PricePoint{At: at, Price: price})
	s.lines = append(s.lines, r.line)
	return nil
}

// onVPC is the suffix of products in accounts that had EC2's first kind of network. Their prices are those of the same
// product without it.
const onVPC = " (Amazon VPC)"

// parsePrice parses an amount, optionally with a dollar sign, USD or an exponent, and rounds one with more decimals than billionths, which
// EC2 never published: collectors that kept prices in binary fractions wrote 1.4249999999999998 for 1.425.
func parsePrice(text string) (price market.USD, rounded bool, err error) {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(text), "USD"), "USD"))
	text = strings.TrimPrefix(text, "$")
	if strings.ContainsAny(text, "eE") {
		if amount, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(amount) < 1e6 {
			text = strings.TrimRight(strings.TrimRight(strconv.FormatFloat(amount, 'f', 12, 64), "0"), ".")
		}
	}
	point := strings.IndexByte(text, '.')
	if point < 0 || len(text)-point-1 <= decimals {
		price, err = market.ParseUSD(text)
		return price, false, err
	}
	amount, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "eExXpP_+nN") || math.Abs(amount) > 1e6 {
		price, err = market.ParseUSD(text) // for its error
		return price, false, err
	}
	return market.USD(math.Round(amount * float64(market.Dollar))), true, nil
}

// decimals is the number of decimals of a USD.
const decimals = 9

func (c *collector) series(zone, kind string) (*series, error) {
	key := marketKey{zone, kind}
	if s, ok := c.markets[key]; ok {
		return s, nil
	}
	region, err := RegionOf(zone)
	if err != nil {
		return nil, err
	}
	if kind == "" || strings.ContainsFunc(kind, noPartOfName) {
		return nil, fmt.Errorf("instance type %q: want a name such as c3.xlarge", kind)
	}
	key = marketKey{strings.Clone(zone), strings.Clone(kind)}
	s := &series{pool: market.Pool{
		Provider: c.options.Provider, Region: region, Zone: key.zone, Type: key.kind, Class: market.Spot,
	}}
	c.markets[key] = s
	return s, nil
}

// noPartOfName reports characters that no provider's names contain. They would not survive the formats in which pools are stored, text in
// JSON and CSV.
func noPartOfName(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ',' || r == '"' }

// trace finishes the collection.
func (c *collector) trace() *Trace {
	all := make([]*series, 0, len(c.markets))
	for _, s := range c.markets {
		if len(s.points) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *series) int { return a.pool.Compare(b.pool) })
	var markets []Market
	for _, s := range all {
		c.noteRepeats(s)
		markets = append(markets, Market{Pool: s.pool, History: market.NewHistory(s.points)})
	}
	sortNotes(c.summary.Absurd)
	sortNotes(c.summary.Conflicts)
	return New(markets, c.summary)
}

// noteRepeats counts rows of the same instant: equal ones as duplicates, others as conflicts.
func (c *collector) noteRepeats(s *series) {
	order := make([]int, len(s.points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.points[a].At.Compare(s.points[b].At) })
	for i := 1; i < len(order); i++ {
		before, p := s.points[order[i-1]], s.points[order[i]]
		switch {
		case !before.At.Equal(p.At):
		case before.Price == p.Price:
			c.summary.Duplicates++
		default:
			c.summary.Conflicts = append(c.summary.Conflicts, RowNote{c.options.File, s.lines[order[i]], s.pool, p.At, p.Price})
		}
	}
}

func sortNotes(notes []RowNote) {
	slices.SortFunc(notes, func(a, b RowNote) int { return a.Line - b.Line })
}

// gceZone matches a zone of Compute Engine, which cannot be mistaken for one of EC2.
var gceZone = pattern.Of(`^([a-z]+-[a-z]+[0-9]+)-[a-z]$`)

// RegionOf returns the region of a zone. On EC2 it is the words up to the first number ("us-west-1a", "us-west-2-lax-1a" and the bare
// region "us-west-1" are in us-west-1, us-west-2 and us-west-1); on Compute Engine the zone without its letter ("us-central1-a" is in
// us-central1).
func RegionOf(zone string) (string, error) {
	if found := gceZone().FindStringSubmatch(zone); found != nil {
		return found[1], nil
	}
	number := strings.IndexAny(zone, "0123456789")
	if number < 4 || zone[number-1] != '-' {
		return "", zoneError(zone)
	}
	end := number + 1
	for end < len(zone) && zone[end] >= '0' && zone[end] <= '9' {
		end++
	}
	for _, part := range strings.Split(zone[:number-1], "-") {
		if !lowerLetters(part) {
			return "", zoneError(zone)
		}
	}
	for _, letter := range zone[end:] {
		if letter != '-' && (letter < 'a' || letter > 'z') && (letter < '0' || letter > '9') {
			return "", zoneError(zone)
		}
	}
	return zone[:end], nil
}

func zoneError(zone string) error {
	return fmt.Errorf("zone %q: want one such as us-west-1a", zone)
}

func lowerLetters(s string) bool {
	for _, letter := range s {
		if letter < 'a' || letter > 'z' {
			return false
		}
	}
	return s != ""
}
