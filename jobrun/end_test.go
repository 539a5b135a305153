package jobrun

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/scaling"
)

// endable is a run that ends on request: it releases its directory.
type endable struct {
	handle int
	asked  atomic.Value
}

func (e *endable) Scale(context.Context, elasticity.ScaleWanted, bool, func(elasticity.Scale, bool) error) error {
	return nil
}

func (e *endable) Stop(_ context.Context, why string, now bool) {
	e.asked.Store(why)
	if now {
		e.asked.Store(why + ", now")
	}
	_ = syscall.Close(e.handle)
}

// hold is Hold with a handle that can be closed, as the end of the process would.
func hold(t *testing.T, dir string) int {
	t.Helper()
	handle, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(handle, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return handle
}

// A run that does not listen yet gets the request once it does.
func TestEnd(t *testing.T) {
	for _, now := range []bool{false, true} {
		dir := t.TempDir()
		run := &endable{handle: hold(t, dir)}
		began := make(chan error, 1)
		heard := 0
		go func() { began <- End(t.Context(), dir, "tierml stop", now, func() { heard++ }) }()
		door, err := scaling.Serve(dir, run, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-began; err != nil || heard != 1 {
			t.Errorf("%v; heard %d times", err, heard)
		}
		door.Close()
		want := map[bool]string{false: "tierml stop", true: "tierml stop, now"}[now]
		if got := run.asked.Load(); got != want {
			t.Errorf("asked by %q, want %q", got, want)
		}
	}
}

func TestEndOfWhatHasEnded(t *testing.T) {
	if err := End(t.Context(), t.TempDir(), "", false, nil); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	dir := t.TempDir()
	defer func(handle int) { _ = syscall.Close(handle) }(hold(t, dir))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := End(ctx, dir, "", false, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
