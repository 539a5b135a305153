package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// lateMachine is a machine whose metadata service answers in time only on the fourth request.
type lateMachine struct {
	Machine
	asked int
	err   error
}

func (m *lateMachine) Identity(context.Context) (Identity, error) {
	time.Sleep(10 * time.Second)
	if m.asked++; m.asked < 4 || m.err != nil {
		return Identity{}, fmt.Errorf("asking: %w", errors.Join(m.err, context.DeadlineExceeded))
	}
	return Identity{Instance: "i-1"}, errors.New("asked for the fourth time")
}

// An agent that starts with many others on a busy host learns its identity late. It retries for two minutes.
func TestMetadataIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &lateMachine{}
		if _, _, err := identify(t.Context(), m); m.asked != 4 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("asked %d times: %v", m.asked, err)
		}
		m = &lateMachine{err: errors.New("never")}
		began := time.Now()
		if _, _, err := identify(t.Context(), m); !errors.Is(err, m.err) || time.Since(began) > metadataWithin+20*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
