package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tierml/tierml/internal/terminal"
)

// refresh is the interval at which the live view is drawn. The terminal gets only what has changed.
const refresh = 200 * time.Millisecond

// startLive runs the live view until Close. If it fails, plain lines replace it.
func (c *Console) startLive(ctx context.Context) {
	options := []tea.ProgramOption{tea.WithOutput(terminal.Raw(c.out)), tea.WithoutSignalHandler(), tea.WithContext(ctx)}
	if c.opts.Input != nil {
		options = append(options, tea.WithInput(c.opts.Input))
	}
	c.program = tea.NewProgram(screen{console: c, interrupts: make(chan struct{}, 1)}, options...)
	c.done.Go(func() {
		_, err := c.program.Run() // which always restores the terminal, even after a panic
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed || err == nil || errors.Is(err, context.Canceled) {
			return
		}
		c.leaveBehind()
		c.live = false
		c.print(fmt.Sprintf("the live view has ended (%v); plain lines follow", err))
	})
}

// screen adapts the live view to bubbletea. Its state is in the console.
type screen struct {
	console       *Console
	width, height int
	interrupted   int
	interrupts    chan struct{} // a token: OnInterrupt is not called concurrently with itself
}

type tickMsg struct{}

type interruptedMsg struct{}

func tick() tea.Cmd {
	return tea.Tick(refresh, func(time.Time) tea.Msg { return tickMsg{} })
}

func (s screen) Init() tea.Cmd { return tick() }

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		return s, tick()
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c":
			s.interrupted++
			return s, s.interrupt
		}
	}
	return s, nil
}

// interrupt notifies the owner; the view continues until the owner closes it.
func (s screen) interrupt() tea.Msg {
	if f := s.console.opts.OnInterrupt; f != nil {
		s.interrupts <- struct{}{}
		defer func() { <-s.interrupts }()
		f()
	}
	return interruptedMsg{}
}

func (s screen) View() tea.View {
	c := s.console
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.status.Mapping.At(c.opts.Now())
	if now.Before(c.status.Now) || c.status.Outcome != "" {
		now = c.status.Now
	}
	view := tea.NewView(picture{c.status, c.opts.Watching}.draw(now, s.width, s.height, s.interrupted))
	view.AltScreen = true
	view.WindowTitle = "tierml " + terminal.Line(c.status.Start.Name)
	return view
}
