package progress

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tierml/tierml/internal/terminal"
)

// Unit is what a bar counts.
type Unit int

// The units.
const (
	Things  Unit = iota // one by one
	Bytes               // in powers of ten, as networks and disks are sold
	Seconds             // with a known length, such as waiting until a limit
)

// Bar is the progress of one activity. Its methods may be called by several goroutines.
type Bar struct {
	meter *Meter
	what  string
	total atomic.Int64
	unit  Unit
	began time.Time
	due   time.Time // when the next line of words is due
	done  atomic.Int64
	over  sync.Once
}

// Add counts more.
func (b *Bar) Add(n int64) { b.done.Add(n) }

// Set sets how much is done of how much, as callbacks report it.
func (b *Bar) Set(done, total int) {
	b.total.Store(int64(total))
	for before := b.done.Load(); before < int64(done); before = b.done.Load() { // callbacks of several goroutines overtake each other
		if b.done.CompareAndSwap(before, int64(done)) {
			return
		}
	}
}

// Done ends the bar and removes it from the screen. A second call does nothing.
func (b *Bar) Done() {
	b.over.Do(func() {
		if b.meter != nil {
			b.meter.end(b)
		}
	})
}

// Reader counts the bytes read.
func (b *Bar) Reader(r io.Reader) io.Reader { return counted{r, b} }

type counted struct {
	io.Reader
	bar *Bar
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bar.Add(int64(n))
	return n, err
}

// barCells is the full width of a bar.
const barCells = 24

// line returns the bar's text, at most width cells: the activity, then as much of bar, share, count and time left as there is room
// for, the time first.
func (b *Bar) line(now time.Time, width int) string {
	done, total, elapsed := b.done.Load(), b.total.Load(), now.Sub(b.began)
	parts := []string{terminal.Line(b.what)}
	if total <= 0 {
		if done > 0 {
			parts = append(parts, b.count(done)+b.rate(done, elapsed))
		}
		parts = append(parts, Length(elapsed))
		return ansi.Truncate(strings.Join(parts, "  "), max(0, width), "…")
	}
	share := min(1, max(0, float64(done)/float64(total)))
	parts = append(parts, fmt.Sprintf("%3.0f%%", 100*share), b.count(done)+"/"+b.count(total))
	if left, known := b.left(done, total, elapsed); known {
		parts = append(parts, Length(left)+" left")
	}
	text := strings.Join(parts, "  ")
	if room := width - ansi.StringWidth(text) - 2; room >= 8 {
		cells := min(barCells, room)
		full := int(math.Round(share * float64(cells)))
		parts[0] += "  " + strings.Repeat("█", full) + strings.Repeat("░", cells-full)
		text = strings.Join(parts, "  ")
	}
	return ansi.Truncate(text, max(0, width), "…")
}

// words describes the progress where bars cannot be drawn.
func (b *Bar) words(now time.Time) string {
	done, total, elapsed := b.done.Load(), b.total.Load(), now.Sub(b.began)
	text := "tierml: " + terminal.Line(b.what) + ": "
	switch left, known := b.left(done, total, elapsed); {
	case known:
		return text + fmt.Sprintf("%s of %s after %s, about %s left", b.count(done), b.count(total), Length(elapsed), Length(left))
	case done > 0:
		text += b.count(done) + " after "
	}
	return text + Length(elapsed)
}

// left returns the time that the rest takes at the present pace.
func (b *Bar) left(done, total int64, elapsed time.Duration) (time.Duration, bool) {
	if b.unit == Seconds {
		return time.Duration(max(0, total-done)) * time.Second, true
	}
	if done <= 0 || done > total {
		return 0, false
	}
	return time.Duration(float64(elapsed) / float64(done) * float64(total-done)), true
}

func (b *Bar) count(n int64) string {
	switch b.unit {
	case Bytes:
		return Size(n)
	case Seconds:
		return Length(time.Duration(n) * time.Second)
	}
	return fmt.Sprint(n)
}

func (b *Bar) rate(done int64, elapsed time.Duration) string {
	if b.unit != Bytes || elapsed <= 0 {
		return ""
	}
	return ", " + Size(int64(float64(done)/elapsed.Seconds())) + "/s"
}

// Size formats a number of bytes, such as 12.3 MB.
func Size(n int64) string {
	amount, unit := float64(n), "B"
	for _, larger := range []string{"kB", "MB", "GB", "TB"} {
		if math.Abs(amount) < 999.5 {
			break
		}
		amount, unit = amount/1000, larger
	}
	if unit == "B" || math.Abs(amount) >= 99.95 {
		return fmt.Sprintf("%.0f %s", amount, unit)
	}
	return fmt.Sprintf("%.1f %s", amount, unit)
}

// Length formats a time to the second, such as 4s, 2m05s or 1h02m.
func Length(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}
