package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
	"github.com/tierml/tierml/tiers"
)

// broken is a toy that fails at one point.
type broken struct {
	toy
	at string
}

func (b *broken) LoadSplit(id ps.Split, r io.Reader, seed uint64) (apps.Split, error) {
	if b.at == "LoadSplit" {
		panic("toy: cannot be loaded\nat all")
	}
	split, err := b.toy.LoadSplit(id, r, seed)
	return brokenSplit{split, b.at}, err
}

type brokenSplit struct {
	apps.Split
	at string
}

func (s brokenSplit) Needs(c ps.Clock, keys []ps.Key) []ps.Key {
	if s.at == "Needs" && c == 3 {
		panic("toy: needs nothing")
	}
	return s.Split.Needs(c, keys)
}

func (s brokenSplit) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	if s.at == "Run" && c == 3 {
		_ = make([]int, 1)[c:] // out of range
	}
	return s.Split.Run(c, rows, evaluate)
}

// An agent that ends by itself says why, with the stack of a panic, before it ends: whether the application panics, anywhere, or the agent
// meets an error that it cannot continue after.
func TestAnAgentThatEndsByItselfSaysWhy(t *testing.T) {
	for at, want := range map[string]string{
		"New":        "panic: toy: cannot be made",
		"LoadSplit":  "panic: toy: cannot be loaded",
		"Needs":      "panic: toy: needs nothing",
		"Run":        "panic: runtime error: slice bounds out of range",
		"contribute": "a frame of 65 MiB is larger than 64 MiB",
		"the server": "panic: toy: cannot serve",
		"the client": "panic: toy: cannot ask",
		"sending":    "panic: toy: cannot contribute",
	} {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s on %d threads", at, threads), func(t *testing.T) {
				simulate(t, func(t *testing.T, w *world) {
					m := w.start("i-1", func(m *machine) {
						m.change = func(c *Config) {
							c.Threads = threads
							c.NewApp = func(string, map[string]string, []byte) (apps.App, error) {
								if at == "New" {
									panic("toy: cannot be made")
								}
								return &broken{at: at}, nil
							}
							newServer, newClient := c.NewServer, c.NewClient
							switch at {
							case "contribute":
								c.NewClient = func(c ClientConfig) (Client, error) { return tooLarge{fakeClient{w.parties, c.Incarnation}}, nil }
							case "sending":
								c.NewClient = func(c ClientConfig) (Client, error) { return panicking{fakeClient{w.parties, c.Incarnation}}, nil }
							case "the server":
								c.NewServer = func(c ServerConfig) (Server, error) {
									w.panicIn("toy: cannot serve", c.Panicked)
									return newServer(c)
								}
							case "the client":
								c.NewClient = func(c ClientConfig) (Client, error) {
									w.panicIn("toy: cannot ask", c.Panicked)
									return newClient(c)
								}
							}
						}
					})
					w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
					w.order("i-1", w.welcome(1, 10))
					w.order("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
					crashed := w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Crashed); return ok }).(tiers.Crashed)
					if !strings.Contains(crashed.Error, want) || strings.Contains(crashed.Error, "\n") {
						t.Errorf("it says %q; want %q", crashed.Error, want)
					}
					if strings.HasPrefix(want, "panic") && !strings.Contains(crashed.Log, "crash_test.go") {
						t.Errorf("no stack in its log:\n%s", crashed.Log)
					}
					if !strings.Contains(crashed.Log, "node starts") {
						t.Errorf("its log is\n%s", crashed.Log)
					}
					if strings.HasPrefix(at, "the ") { // their process would end now
						return
					}
					<-m.ended
					if m.outcome == nil || !strings.Contains(m.outcome.Error(), want) {
						t.Errorf("it ended with %v", m.outcome)
					}
				})
			})
		}
	}
}

// tooLarge is a client whose contributions every server refuses.
type tooLarge struct{ fakeClient }

func (tooLarge) Contribute(context.Context, ps.Generation, ps.Incarnation, uint64, ps.Clock, []ps.Split, []ps.Sums) error {
	return errors.New("a frame of 65 MiB is larger than 64 MiB")
}

// panicking is a client whose contributions panic.
type panicking struct{ fakeClient }

func (panicking) Contribute(context.Context, ps.Generation, ps.Incarnation, uint64, ps.Clock, []ps.Split, []ps.Sums) error {
	panic("toy: cannot contribute")
}

// panicIn makes a goroutine of a server or client panic: its creator learns of it before the process ends.
func (w *world) panicIn(value any, tell func(value any, stack []byte)) {
	w.done.Go(func() {
		defer func() { _ = recover() }() // instead of ending the process
		defer wire.Panicked(tell).Report()
		panic(value)
	})
}
