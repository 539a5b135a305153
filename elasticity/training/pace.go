package training

import (
	"fmt"
	"time"
)

// The pace of cuts follows from bandwidth (docs/training.md, Cuts): the changes since the last cut stay below what a backup can receive
// within the shortest warning, less a margin, so that an end-of-life flush is in time; and background deliveries leave the link to
// training.
const (
	// FlushMargin is the share of the warning that deliveries of an end-of-life flush may take. The rest is for receiving the warning, the
	// current clock and the commit.
	FlushMargin = 0.5
	// usualShare is the most that cuts take of a backup's link, as long as the warning permits.
	usualShare = 0.1
	// MostShare is the upper limit.
	MostShare = 0.5
	// tellingBytes is the size above which a delivery's rate is that of the link, not of its round trips.
	tellingBytes = 64 << 10
)

// pace holds measured rates and sizes of earlier cuts, which determine the time of the next cut.
type pace struct {
	Rate  float64       // bytes per wall-clock second received by a backup; 0 = unknown
	Every time.Duration // from one cut to the next, in market time; 0 = as configured
	Dirty int64         // bytes that a cut would have to deliver now, by the owners' last heartbeats
	Limit int64         // limit on Dirty, beyond which the next cut is due early; 0 = none
	At    time.Time     // of the last cut
}

// received learns from a delivery. Long transfers predict better than short ones, so rates are smoothed.
func (p *pace) received(bytes int64, seconds, link float64) {
	if bytes <= 0 || seconds <= 0 {
		return
	}
	switch rate := float64(bytes) / seconds; {
	case p.Rate == 0:
		p.Rate = rate
	case bytes >= tellingBytes:
		p.Rate += (rate - p.Rate) / 3
	default:
		p.Rate = max(p.Rate, rate)
	}
	if link > 0 {
		p.Rate = min(p.Rate, link)
	}
}

// interval returns the wall-clock seconds until the next cut. The last cut sent the busiest backup this many bytes, gathered in this many
// seconds. Base is the shortest desired interval, notice the warning before an eviction (0 = there is none), clock the length of a clock:
//
//	easy   = bytes / rate / usualShare            background deliveries take a tenth of the link
//	urgent = (margin x notice - clock) x rate / (bytes / gathered)   what gathers until then is flushed in time
//	least  = bytes / rate / MostShare             deliveries take half of the link at most, come what may
//
// The warning takes precedence over the link: max(least, min(urgent, max(base, easy))). Linear growth is conservative for longer intervals,
// as rows that change twice are sent once; shorter ones are measured again. Tiny cuts, and warnings shorter than a clock, do not affect the
// interval.
func (p *pace) interval(bytes int64, gathered, base, notice, clock float64) (seconds float64, why string) {
	if p.Rate == 0 || bytes < tellingBytes || gathered <= 0 {
		return base, ""
	}
	deliver := float64(bytes) / p.Rate
	easy, least := deliver/usualShare, deliver/MostShare
	wanted := max(base, easy)
	if wanted > base {
		why = fmt.Sprintf("%s take %.2f s of a backup's link at %s/s: more often would take more than %.0f %% of it",
			size(bytes), deliver, size(int64(p.Rate)), 100*usualShare)
	}
	room := FlushMargin*notice - clock
	if room <= 0 {
		return wanted, why // no flush would be in time, however little it had to deliver
	}
	urgent := room * p.Rate * gathered / float64(bytes)
	switch {
	case urgent >= wanted:
		return wanted, why
	case urgent >= least:
		return urgent, fmt.Sprintf("%s in %.1f s must be flushed within %.0f %% of a warning of %.1f s, less a clock of %.2f s, at %s/s",
			size(bytes), gathered, 100*FlushMargin, notice, clock, size(int64(p.Rate)))
	}
	return least, fmt.Sprintf("%s take %.2f s at %s/s, longer than %.0f %% of a warning of %.1f s less a clock of %.2f s: a flush will not be in time, and cuts come as often as half of the link allows",
		size(bytes), deliver, size(int64(p.Rate)), 100*FlushMargin, notice, clock)
}

// size formats bytes for people.
func size(bytes int64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
}
