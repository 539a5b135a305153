package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A run continues from where its journal ends, whatever the host's clock was set to in between; never from before that.
func TestNotBefore(t *testing.T) {
	at := Wall()
	for name, m := range map[string]Mapping{"real": Real(), "fast": {Market: at.Add(-time.Hour), Wall: at, Speed: 60}} {
		ahead := m.Now().Add(time.Hour)
		if got := m.NotBefore(ahead).Now(); got.Before(ahead) || got.Sub(ahead) > time.Minute {
			t.Errorf("%s: set back by an hour: %v, want %v", name, got, ahead)
		}
		if got := m.NotBefore(m.Now().Add(-time.Hour)); got != m {
			t.Errorf("%s: set forward: %v", name, got)
		}
	}
}

func TestUntil(t *testing.T) {
	at := Wall()
	m := Mapping{Market: at, Wall: at, Speed: 60}
	if got := m.Until(at.Add(time.Hour)); got > time.Minute || got < 59*time.Second {
		t.Errorf("an hour of the market at speed 60 takes %v", got)
	}
}

// Patience ends with its cause when its time runs out, and earlier with its parent.
func TestWithPatience(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := WithPatience(t.Context(), 20*time.Millisecond, late)
	defer cancel()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), late) {
		t.Errorf("over: %v", context.Cause(ctx))
	}
	parent, end := context.WithCancel(t.Context())
	ctx, cancel = WithPatience(parent, time.Hour, late)
	defer cancel()
	end()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("its parent ended: %v", context.Cause(ctx))
	}
}
