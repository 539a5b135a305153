// Package console shows a run while it is active. Everything shown comes from journal entries, which it receives as they are written, so
// that the display always agrees with the journal. On a terminal it is a live view, elsewhere plain lines for notable events.
//
// It only displays: it decides nothing, and passes a request to stop to its owner.
package console

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/watch/status"
)

// Options of a Console; the zero value is usable.
type Options struct {
	// Plain selects plain lines even on a terminal.
	Plain bool
	// Watching: the run belongs to another process. OnInterrupt leaves the view, not the run.
	Watching bool
	// EveryClocks and Every bound how often plain output reports progress: a clock line follows the previous one after this many clocks or
	// this much wall-clock time. Zero means 50 clocks and 5 seconds.
	EveryClocks int64
	Every       time.Duration
	// OnInterrupt is called on q and Ctrl-C in the live view, each time, not concurrently with itself. (With
	// plain lines Ctrl-C is an ordinary signal, which the owner handles.)
	OnInterrupt func()
	// Input is where the live view reads keys; nil means the terminal.
	Input io.Reader
	// Now returns the wall-clock time; nil means time.Now.
	Now func() time.Time
}

// Console shows a run. Feed and Close may be called concurrently; Feed never waits for the terminal of a live view.
type Console struct {
	out  io.Writer
	opts Options

	mu        sync.Mutex
	status    *status.Status
	lastFed   time.Time
	lastClock time.Time // wall-clock time of the last clock line
	saidClock int64     // clocks done by then
	live      bool      // lines wait for the end of the live view
	closed    bool
	err       error // of writing to out

	program *tea.Program
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// quiet is how long to wait for more of a group of similar entries before it is shown.
const quiet = 300 * time.Millisecond

// New starts to show a run. The owner must call Close, even after a panic, so that the terminal is restored.
func New(out io.Writer, opts Options) *Console {
	if opts.EveryClocks == 0 {
		opts.EveryClocks = 50
	}
	if opts.Every == 0 {
		opts.Every = 5 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Console{out: out, opts: opts, status: status.New()}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	if !opts.Plain && IsTerminal(out) {
		c.live = true
		c.startLive(ctx)
	}
	c.done.Go(func() { c.flushWhenQuiet(ctx) })
	return c
}

// IsTerminal reports whether out is a terminal that can show a live view.
func IsTerminal(out io.Writer) bool {
	f, ok := terminal.File(out)
	return ok && term.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}

// Feed shows an entry. Pass it to journal.Create as the observer.
func (c *Console) Feed(e journal.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	now := c.opts.Now()
	c.lastFed = now
	lines := c.status.Feed(e)
	if c.live {
		return
	}
	for _, l := range lines {
		c.print(plainLine(l.T, l.String()))
	}
	if (e.Kind == journal.ClockDone || e.Kind == journal.ProgramStep) && c.clockDue(now) {
		c.flush() // show earlier events first
		c.lastClock, c.saidClock = now, c.status.ClocksDone
		c.print(plainLine(e.T, c.status.ClockText()))
	}
}

// Recall processes an entry of an earlier part of the run: it counts, but is not shown again.
func (c *Console) Recall(e journal.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Feed(e)
	c.status.Flush()
}

// clockDue reports whether it is time for a clock line. The first clock always gets one.
func (c *Console) clockDue(now time.Time) bool {
	return c.lastClock.IsZero() || now.Sub(c.lastClock) >= c.opts.Every || c.status.ClocksDone-c.saidClock >= c.opts.EveryClocks
}

func (c *Console) print(line string) {
	err := table.Folded(c.out, func(w io.Writer) error {
		_, err := io.WriteString(w, line+"\n")
		return err
	})
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("showing the run: %w", err)
	}
}

// Output shows lines of the run's programs unchanged, between plain lines; a live view has no room for them.
func (c *Console) Output() io.Writer { return outputWriter{c} }

type outputWriter struct{ *Console }

// Write accepts whole lines.
func (o outputWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live || o.closed {
		return len(p), nil
	}
	if _, err := o.out.Write(p); err != nil && o.err == nil {
		o.err = fmt.Errorf("showing the run: %w", err)
	}
	return len(p), nil
}

func plainLine(t time.Time, text string) string {
	return t.UTC().Format("15:04:05") + "  " + terminal.Line(text)
}

// flushWhenQuiet shows a waiting group when nothing has arrived for a while.
func (c *Console) flushWhenQuiet(ctx context.Context) {
	ticker := time.NewTicker(quiet / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.mu.Lock()
			if c.opts.Now().Sub(c.lastFed) >= quiet {
				c.flush()
			}
			c.mu.Unlock()
		}
	}
}

func (c *Console) flush() {
	for _, l := range c.status.Flush() {
		if !c.live {
			c.print(plainLine(l.T, l.String()))
		}
	}
}

// Close shows the remaining events and restores the terminal. It leaves a live view's last events and figures on the screen. It returns the
// first error of writing.
func (c *Console) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.flush()
	c.mu.Unlock()
	c.stop()
	if c.program != nil {
		c.program.Quit()
	}
	c.done.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program != nil && c.live {
		c.leaveBehind()
	}
	return c.err
}

// leaveBehind prints the live view's last contents, for the scroll-back.
func (c *Console) leaveBehind() {
	for _, l := range c.status.Recent {
		c.print(plainLine(l.T, l.String()))
	}
	if c.status.ClocksDone > 0 && c.status.Outcome == "" {
		c.print(plainLine(c.status.Now, c.status.ClockText()))
	}
}
