// Package store keeps price histories in one file, so that a year of all zones opens in an instant and imported files need not be read
// again.
//
// The file is a bbolt database: an import is one transaction, which a crash leaves complete or not begun, and a second
// writer waits, then fails with a clear error. It knows nothing about where prices come from (market/trace reads files)
// or their use.
//
// Bucket "prices" has one bucket for each pool, named as market.Pool prints it. In it, key "index" is the pool's Entry, and every other key
// is a month as "2016-02" with the month's points as block.go writes them.
package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
)

var (
	pricesBucket = []byte("prices")
	indexKey     = []byte("index")
)

// A bbolt file has its magic number after the header of its first page.
const (
	magicOffset = 16
	boltMagic   = 0xED0CDAED
)

// lockWait is how long Open waits for another process that has the file open for writing.
const lockWait = 5 * time.Second

// Store is an open file of prices. It is safe for concurrent use.
type Store struct {
	path string
	db   *bolt.DB
}

// Entry describes what the store holds for a pool.
type Entry struct {
	Pool   market.Pool `json:"pool"`
	Points int         `json:"points"`
	First  time.Time   `json:"first"`
	Last   time.Time   `json:"last"`
	// LongestGap is the longest time between two points, beginning at GapFrom: the previous price is assumed to hold.
	LongestGap time.Duration `json:"longest_gap"`
	GapFrom    time.Time     `json:"gap_from"`
}

// Import is the result of a call of Import.
type Import struct {
	Pools  int
	Points int // in the input
	New    int // not held before
	// Conflicts are points for which the store had another price for the same pool and instant; the new one wins.
	Conflicts int
}

// Open opens the file for reading and writing, and creates it, with its folder, if it does not exist.
func Open(path string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("opening the price store %s: %w", path, err)
	}
	_, missing := os.Stat(path)
	s, err := open(path, &bolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil && missing != nil {
		if info, err := os.Stat(path); err == nil && info.Size() == 0 { // as on a full disk
			_ = os.Remove(path)
		}
	}
	return s, err
}

// OpenReadOnly opens an existing file. Several processes may do so at once.
func OpenReadOnly(path string) (*Store, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opening the price store: %w; `tierml prices import FILE` makes one, and `tierml prices sample` writes a recording to import", err)
	case info.Size() == 0:
		return nil, fmt.Errorf("the price store %s is an empty file; `tierml prices import FILE` fills it", path)
	}
	return open(path, &bolt.Options{Timeout: lockWait, ReadOnly: true})
}

func open(path string, o *bolt.Options) (*Store, error) {
	db, err := bolt.Open(path, 0o644, o)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("the price store %s is in use by another process; try again when it is done", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return nil, fmt.Errorf("%s is no price store: %w; name another file with --store, or move this one away", path, err)
	case err != nil:
		return nil, fmt.Errorf("opening the price store %s: %w", path, err)
	}
	return &Store{path: path, db: db}, nil
}

// HeadLength is the number of leading bytes that IsStore needs.
const HeadLength = magicOffset + 4

// IsStore reports whether a file with this beginning is a store.
func IsStore(head []byte) bool {
	if len(head) < HeadLength {
		return false
	}
	return binary.NativeEndian.Uint32(head[magicOffset:]) == boltMagic
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Import adds prices in one transaction. Source appears in its error.
func (s *Store) Import(markets []trace.Market, source string) (Import, error) {
	done := Import{Pools: len(markets)}
	err := s.db.Update(func(tx *bolt.Tx) error {
		prices, err := tx.CreateBucketIfNotExists(pricesBucket)
		if err != nil {
			return err
		}
		for _, m := range markets {
			if err := done.add(prices, m); err != nil {
				return fmt.Errorf("%s: %w", m.Pool, err)
			}
		}
		return nil
	})
	if err != nil {
		return Import{}, fmt.Errorf("importing prices from %s into %s: %w", source, s.path, err)
	}
	return done, nil
}

// add merges a pool's points, month by month.
func (d *Import) add(prices *bolt.Bucket, m trace.Market) error {
	bucket, err := prices.CreateBucketIfNotExists([]byte(m.Pool.String()))
	if err != nil {
		return err
	}
	if err := checkTimes(m.History); err != nil {
		return err
	}
	for month, points := range months(m.History) {
		held, err := readBlock(bucket.Get(month))
		if err != nil {
			return fmt.Errorf("month %s: %w", month, err)
		}
		merged, conflicts := merge(held, points)
		d.Points += len(points)
		d.New += len(merged) - len(held)
		d.Conflicts += conflicts
		if err := bucket.Put(month, appendBlock(nil, merged)); err != nil {
			return err
		}
	}
	entry, err := describe(m.Pool, bucket)
	if err != nil {
		return err
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return bucket.Put(indexKey, text)
}

// describe computes a pool's entry from all its points.
func describe(pool market.Pool, bucket *bolt.Bucket) (Entry, error) {
	e := Entry{Pool: pool}
	err := eachPoint(bucket, func(p market.PricePoint) {
		switch {
		case e.Points == 0:
			e.First = p.At
		case p.At.Sub(e.Last) > e.LongestGap:
			e.LongestGap, e.GapFrom = p.At.Sub(e.Last), e.Last
		}
		e.Points, e.Last = e.Points+1, p.At
	})
	return e, err
}

func eachPoint(bucket *bolt.Bucket, f func(market.PricePoint)) error {
	return bucket.ForEach(func(key, value []byte) error {
		if string(key) == string(indexKey) {
			return nil
		}
		points, err := readBlock(value)
		if err != nil {
			return fmt.Errorf("month %s: %w", key, err)
		}
		for _, p := range points {
			f(p)
		}
		return nil
	})
}

// Entries lists the pools, sorted.
func (s *Store) Entries() ([]Entry, error) {
	var entries []Entry
	err := s.view(func(prices *bolt.Bucket) error {
		return prices.ForEachBucket(func(name []byte) error {
			var e Entry
			if err := json.Unmarshal(prices.Bucket(name).Get(indexKey), &e); err != nil {
				return fmt.Errorf("index of %s: %w", name, err)
			}
			entries = append(entries, e)
			return nil
		})
	})
	slices.SortFunc(entries, func(a, b Entry) int { return a.Pool.Compare(b.Pool) })
	return entries, err
}

// History returns the prices of a pool; nil, which knows no price, if the store has none.
func (s *Store) History(pool market.Pool) (*market.History, error) {
	var points []market.PricePoint
	err := s.view(func(prices *bolt.Bucket) error {
		bucket := prices.Bucket([]byte(pool.String()))
		if bucket == nil {
			return nil
		}
		err := eachPoint(bucket, func(p market.PricePoint) { points = append(points, p) })
		if err != nil {
			return fmt.Errorf("%s: %w", pool, err)
		}
		return nil
	})
	if err != nil || points == nil {
		return nil, err
	}
	return market.NewHistory(points), nil
}

// Trace returns the prices of all pools that want accepts, as if they had been read from one file.
func (s *Store) Trace(want func(market.Pool) bool) (*trace.Trace, error) {
	entries, err := s.Entries()
	if err != nil {
		return nil, err
	}
	var markets []trace.Market
	for _, e := range entries {
		if !want(e.Pool) {
			continue
		}
		h, err := s.History(e.Pool)
		if err != nil {
			return nil, err
		}
		if h == nil {
			return nil, fmt.Errorf("reading %s: it lists %s, and has no prices of it; import its sources into a new store", s.path, e.Pool)
		}
		markets = append(markets, trace.Market{Pool: e.Pool, History: h})
	}
	return trace.New(markets, trace.Summary{}), nil
}

// view reads the prices; a bucket that does not exist yet is empty.
func (s *Store) view(f func(*bolt.Bucket) error) error {
	err := s.db.View(func(tx *bolt.Tx) error {
		if bucket := tx.Bucket(pricesBucket); bucket != nil {
			return f(bucket)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the price store %s: %w", s.path, err)
	}
	return nil
}
