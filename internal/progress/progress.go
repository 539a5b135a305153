// Package progress shows the progress of a long operation: one line on a terminal, with a bar, a count and the remaining time, which
// disappears when the operation is done. In pipes, logs and dumb terminals, where no line can be redrawn, it prints a line of words at
// intervals. It knows nothing about the work.
//
// Work that ends within a second is never shown, so callers start a bar for everything that may take longer.
package progress

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/tierml/tierml/internal/terminal"
)

const (
	// patience is how long something may take before it is shown.
	patience = time.Second
	// redraw is the interval at which a line is drawn.
	redraw = 100 * time.Millisecond
	// firstWords is when the first line of words comes; each later one comes after twice the time.
	firstWords = 3 * time.Second
	// erase removes a line.
	erase = "\r\x1b[K"
)

// Meter is the progress line of a terminal. A nil Meter shows nothing.
type Meter struct {
	out   io.Writer
	words bool // no line can be redrawn
	width func() int
	now   func() time.Time

	mu   sync.Mutex
	bars []*Bar // the last one is shown: it is a part of those before
	shut func() // ends the drawing; nil while there is no bar
	on   bool   // a line is on the screen
}

// New returns the meter of a stream; nil where NO_PROGRESS is set.
func New(out io.Writer) *Meter {
	if os.Getenv("NO_PROGRESS") != "" {
		return nil
	}
	file, ok := terminal.File(out)
	if !ok || !term.IsTerminal(file.Fd()) || os.Getenv("TERM") == "dumb" {
		return &Meter{out: out, now: time.Now, words: true}
	}
	return &Meter{out: file, now: time.Now, width: func() int {
		width, _, err := term.GetSize(file.Fd())
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}}
}

type key struct{}

// With lets functions that get the context show bars on a meter.
func With(ctx context.Context, m *Meter) context.Context { return context.WithValue(ctx, key{}, m) }

// From returns the meter of a context; nil if there is none.
func From(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}

// Start begins a bar on the meter of a context. See Meter.Start.
func Start(ctx context.Context, what string, total int64, unit Unit) *Bar {
	return From(ctx).Start(what, total, unit)
}

// Start begins a bar for an activity with this many steps. A total of 0 or less is unknown. The caller must call Done.
func (m *Meter) Start(what string, total int64, unit Unit) *Bar {
	b := &Bar{meter: m, what: what, unit: unit}
	b.total.Store(total)
	if m == nil {
		return b
	}
	b.began = m.now()
	b.due = b.began.Add(firstWords)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bars = append(m.bars, b)
	if m.shut == nil {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go m.draw(stop, stopped)
		m.shut = func() { close(stop); <-stopped }
	}
	return b
}

// draw shows the last bar until it is stopped.
func (m *Meter) draw(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			m.mu.Lock()
			if n := len(m.bars); n > 0 {
				m.show(m.bars[n-1], m.now())
			}
			m.mu.Unlock()
		}
	}
}

// show draws a bar, or describes the progress in words. The lock must be held. Errors are ignored: a missed bar is no loss.
func (m *Meter) show(b *Bar, now time.Time) {
	switch {
	case m.words:
		if !now.Before(b.due) {
			b.due = now.Add(now.Sub(b.began))
			_, _ = io.WriteString(m.out, b.words(now)+"\n")
		}
	case now.Sub(b.began) >= patience:
		m.on = true
		_, _ = io.WriteString(m.out, erase+b.line(now, m.width()-1))
	}
}

// end removes a bar.
func (m *Meter) end(b *Bar) {
	m.mu.Lock()
	for i, other := range m.bars {
		if other == b {
			m.bars = append(m.bars[:i:i], m.bars[i+1:]...)
			break
		}
	}
	m.clear()
	var shut func()
	if len(m.bars) == 0 {
		shut, m.shut = m.shut, nil
	}
	m.mu.Unlock()
	if shut != nil {
		shut() // not under the lock, which the drawing may wait for
	}
}

// clear removes the line from the screen. The lock must be held.
func (m *Meter) clear() {
	if m.on {
		m.on = false
		_, _ = io.WriteString(m.out, erase)
	}
}

// Writer returns a writer to the same terminal whose lines do not run into a bar's.
func (m *Meter) Writer(w io.Writer) io.Writer {
	if m == nil {
		return w
	}
	return beside{m, w}
}

type beside struct {
	*Meter
	io.Writer
}

func (b beside) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	return b.Writer.Write(p)
}
