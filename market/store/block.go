package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// A block is the points of a pool in a month:
//
//	form      1 byte, 1
//	count     uvarint
//	points    count times: nanoseconds since the point before (the first: since 1970), uvarint;
//	          price less the price before (the first: less 0) in billionths, varint
//	checksum  CRC-32C of all before, 4 bytes, little-endian
const blockForm = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("the block is damaged; import its sources into a new store")

func appendBlock(b []byte, points []market.PricePoint) []byte {
	b = append(slices.Grow(b, 12*len(points)+16), blockForm)
	b = binary.AppendUvarint(b, uint64(len(points)))
	var at int64
	var price market.USD
	for _, p := range points {
		now := p.At.UnixNano()
		b = binary.AppendUvarint(b, uint64(now-at))
		b = binary.AppendVarint(b, int64(p.Price-price))
		at, price = now, p.Price
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readBlock returns the points of a block; an empty one has none.
func readBlock(b []byte) ([]market.PricePoint, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 6 || b[0] != blockForm {
		return nil, errDamaged
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, errDamaged
	}
	body = body[1:]
	count, n := binary.Uvarint(body)
	if n <= 0 || count > uint64(len(body)) {
		return nil, errDamaged
	}
	body = body[n:]
	points := make([]market.PricePoint, count)
	var at int64
	var price market.USD
	for i := range points {
		since, n := binary.Uvarint(body)
		if n <= 0 {
			return nil, errDamaged
		}
		change, m := binary.Varint(body[n:])
		if m <= 0 {
			return nil, errDamaged
		}
		body = body[n+m:]
		at += int64(since)
		price += market.USD(change)
		points[i] = market.PricePoint{At: time.Unix(0, at).UTC(), Price: price}
	}
	return points, nil
}

// checkTimes refuses what a block cannot hold: nanoseconds since 1970 in 63 bits.
func checkTimes(h *market.History) error {
	first, _ := h.First()
	last, ok := h.Last()
	if ok && (first.At.Year() < 1970 || last.At.Year() > 2261) {
		return fmt.Errorf("prices from %s to %s: want years from 1970 to 2261", first.At.Format(time.RFC3339), last.At.Format(time.RFC3339))
	}
	return nil
}

// months splits a history at the ends of months (UTC).
func months(h *market.History) iter.Seq2[[]byte, []market.PricePoint] {
	return func(yield func([]byte, []market.PricePoint) bool) {
		last, ok := h.Last()
		if !ok {
			return
		}
		rest := h.Points(time.Time{}, last.At)
		for len(rest) > 0 {
			at := rest[0].At.UTC()
			end := time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			n, _ := slices.BinarySearchFunc(rest, end, func(p market.PricePoint, t time.Time) int { return p.At.Compare(t) })
			if !yield([]byte(at.Format("2006-01")), rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// merge merges two sorted lists. Of points at the same instant the given one wins.
func merge(held, given []market.PricePoint) (merged []market.PricePoint, conflicts int) {
	merged = make([]market.PricePoint, 0, len(held)+len(given))
	for len(held) > 0 && len(given) > 0 {
		switch held[0].At.Compare(given[0].At) {
		case -1:
			merged, held = append(merged, held[0]), held[1:]
		case 1:
			merged, given = append(merged, given[0]), given[1:]
		default:
			if held[0].Price != given[0].Price {
				conflicts++
			}
			held = held[1:]
		}
	}
	merged = append(merged, held...)
	return append(merged, given...), conflicts
}
