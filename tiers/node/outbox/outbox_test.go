package outbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// Whatever breaks, and whenever, the other side sees every message once and in order.
func TestEveryMessageArrivesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // Next never waits here
		sender, receiver := New[int](0), New[int](0)
		line := sender.Connect(0)
		var put, got []int
		receive := func(l Envelope[int]) {
			if receiver.Received(l.Number) {
				got = append(got, l.Message)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				put = append(put, len(put))
				sender.Put(len(put) - 1)
			},
			"send": func(t *rapid.T) {
				if l, err := line.Next(ctx); err == nil {
					receive(l)
				}
			},
			"send and lose the connection": func(t *rapid.T) {
				_, _ = line.Next(ctx)
				line = sender.Connect(receiver.Got())
			},
			"acknowledge": func(t *rapid.T) { sender.Acknowledged(receiver.Got()) },
			"lose the connection": func(t *rapid.T) {
				line = sender.Connect(receiver.Got())
			},
		})
		line = sender.Connect(receiver.Got())
		for {
			l, err := line.Next(ctx)
			if err != nil {
				break
			}
			receive(l)
		}
		if !slices.Equal(put, got) {
			t.Fatalf("sent %v, arrived %v", put, got)
		}
		sender.Acknowledged(receiver.Got())
		if err := sender.Drain(ctx); err != nil {
			t.Fatal("everything is acknowledged, and something still waits")
		}
	})
}

func TestFullOutboxRefuses(t *testing.T) {
	b := New[string](1)
	if !b.Put("a") || b.Put("b") {
		t.Fatal("a box for one message took none or two")
	}
	b.Acknowledged(1)
	if !b.Put("b") {
		t.Fatal("an acknowledged message still takes room")
	}
}

// Acknowledgements are sent by themselves if there is no other message, and are not acknowledged.
func TestAcknowledgementsAreNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := New[string](0)
	line := b.Connect(0)
	b.Received(1)
	if l, err := line.Next(ctx); err != nil || l.Number != 0 || l.Got != 1 {
		t.Fatalf("got %+v, %v; want an acknowledgement of 1", l, err)
	}
	b.Received(0)
	cancel()
	if l, err := line.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("an acknowledgement was answered with %+v", l)
	}
}

func TestForgetKeepsWhatIsWanted(t *testing.T) {
	b := New[string](0)
	for _, m := range []string{"answer", "progress", "answer", "warning"} {
		b.Put(m)
	}
	b.Acknowledged(1)
	b.Received(9)
	b.Forget(func(m string) bool { return m != "answer" })
	line := b.Connect(0)
	var got []string
	for range 2 {
		l, err := line.Next(t.Context())
		if err != nil || l.Number != uint64(len(got)+1) {
			t.Fatalf("letter %+v, %v; numbers start over at 1", l, err)
		}
		got = append(got, l.Message)
	}
	if want := []string{"progress", "warning"}; !slices.Equal(got, want) || b.Got() != 0 {
		t.Fatalf("kept %v, received up to %d; want %v and 0", got, b.Got(), want)
	}
}

func TestALaterConnectionTakesOver(t *testing.T) {
	b := New[string](0)
	old := b.Connect(0)
	line := b.Connect(0)
	b.Put("a")
	if l, err := old.Next(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Fatalf("the old connection took %+v, %v", l, err)
	}
	if l, err := line.Next(t.Context()); err != nil || l.Message != "a" {
		t.Fatalf("the new connection got %+v, %v", l, err)
	}
}

func TestDrainWaitsForTheLastAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New[string](0)
		b.Put("a")
		b.Put("b")
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(t.Context()) }()
		b.Acknowledged(1)
		synctest.Wait()
		if len(drained) > 0 {
			t.Fatal("drained before the last acknowledgement")
		}
		b.Acknowledged(2)
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
	})
}
