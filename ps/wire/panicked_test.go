package wire

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tierml/tierml/ps"
)

// broken is a handler that panics at once, or in the request's own goroutine.
type broken struct{ later bool }

func (b broken) HandleNow(ps.Generation, Message) Message {
	if b.later {
		return nil
	}
	panic("broken now")
}

func (broken) Handle(context.Context, ps.Generation, Message) Message { panic("broken later") }

// A panic of a handler, in whichever goroutine, is reported with its stack before it ends the process.
func TestPanicsAreReported(t *testing.T) {
	for _, want := range []string{"broken now", "broken later"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan string, 1)
		s := &Server{Job: 1, Handler: broken{want == "broken later"}, Log: discard, Traffic: new(Traffic), Panicked: func(value any, stack []byte) {
			told <- value.(string) + string(stack)
			runtime.Goexit() // instead of ending the process
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { _ = s.Serve(ctx, listener) })
		links := &Links{Job: 1}
		asked, stop := context.WithCancel(ctx)
		var asking sync.WaitGroup
		asking.Go(func() {
			if link, err := links.To(asked, listener.Addr().String()); err == nil {
				_, _ = link.Call(asked, 1, &Read{})
			}
		})
		if got := <-told; !strings.HasPrefix(got, want) || !strings.Contains(got, "panicked_test.go") {
			t.Errorf("told %q, want %q with its stack", got, want)
		}
		stop()
		asking.Wait()
		links.Close()
		cancel()
		serving.Wait()
	}
}

func TestPanicsPropagate(t *testing.T) {
	defer func() {
		if value := recover(); value != "broken" {
			t.Errorf("recovered %v", value)
		}
	}()
	defer Panicked(func(any, []byte) {}).Report()
	panic("broken")
}
