// Package clock maps wall-clock time to market time: t = t0 + speed x elapsed. On a real cloud the two are
// the same; on the fake cloud a recorded market is replayed faster. Every time on the wire, in the journal,
// on a bill and in a decision is market time; only notices, heartbeats and boot keep wall-clock lengths.
package clock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mapping is the line through (Wall, Market) with slope Speed.
type Mapping struct {
	Market time.Time // market time at Wall
	Wall   time.Time
	Speed  float64 // market seconds per wall-clock second, > 0
}

// Real returns the mapping of a real cloud: market time is wall-clock time.
func Real() Mapping {
	origin := time.Unix(0, 0).UTC()
	return Mapping{Market: origin, Wall: origin, Speed: 1}
}

// IsReal reports whether market time is wall-clock time: the market is not a recording.
func (m Mapping) IsReal() bool { return m.Speed == 1 && m.Market.Equal(m.Wall) }

// At returns the market time at a wall-clock time.
func (m Mapping) At(wall time.Time) time.Time {
	return m.Market.Add(time.Duration(float64(wall.Sub(m.Wall)) * m.Speed))
}

// WallAt returns the wall-clock time at a market time.
func (m Mapping) WallAt(market time.Time) time.Time {
	return m.Wall.Add(m.ToWall(market.Sub(m.Market)))
}

// Now returns the market time now.
func (m Mapping) Now() time.Time { return m.At(Wall()) }

// Until returns the wall-clock time until a market time.
func (m Mapping) Until(market time.Time) time.Duration { return m.WallAt(market).Sub(Wall()) }

// NotBefore returns the same mapping, moved forward if the market time now would be before a time: the host's clock was set back since.
func (m Mapping) NotBefore(market time.Time) Mapping {
	if behind := market.Sub(m.Now()); behind > 0 {
		m.Market = m.Market.Add(behind)
	}
	return m
}

// ToWall returns the wall-clock length of a market duration.
func (m Mapping) ToWall(d time.Duration) time.Duration {
	return time.Duration(float64(d) / m.Speed)
}

// ToMarket returns the market length of a wall-clock duration.
func (m Mapping) ToMarket(d time.Duration) time.Duration {
	return time.Duration(float64(d) * m.Speed)
}

// String returns the form that Parse reads: "MARKET@WALL*SPEED", both times RFC 3339.
func (m Mapping) String() string {
	return m.Market.UTC().Format(time.RFC3339Nano) + "@" + m.Wall.UTC().Format(time.RFC3339Nano) +
		"*" + strconv.FormatFloat(m.Speed, 'g', -1, 64)
}

// Parse parses the result of String.
func Parse(s string) (Mapping, error) {
	market, rest, ok1 := strings.Cut(s, "@")
	wall, speed, ok2 := strings.Cut(rest, "*")
	if !ok1 || !ok2 {
		return Mapping{}, fmt.Errorf("clock mapping %q: want MARKET@WALL*SPEED", s)
	}
	var m Mapping
	var err error
	if m.Market, err = time.Parse(time.RFC3339Nano, market); err != nil {
		return Mapping{}, fmt.Errorf("clock mapping %q: %w", s, err)
	}
	if m.Wall, err = time.Parse(time.RFC3339Nano, wall); err != nil {
		return Mapping{}, fmt.Errorf("clock mapping %q: %w", s, err)
	}
	if m.Speed, err = strconv.ParseFloat(speed, 64); err != nil || !(m.Speed > 0) {
		return Mapping{}, fmt.Errorf("clock mapping %q: speed %q is not a number above 0", s, speed)
	}
	return m, nil
}
