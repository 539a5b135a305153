package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Machines get the run's grant with their certificates, request more at half its life, keep it while there is no other, and do not join
// without it.
func TestGrant(t *testing.T) {
	r := newRun(t)
	r.close()
	var given int
	var broken error
	r.grant = func(context.Context) (json.RawMessage, time.Duration, error) {
		given++
		return fmt.Appendf(nil, `"grant %d"`, given), 20 * time.Minute, broken
	}
	r.open()
	j := r.joining("i-1", r.tokens.Issue("launch-1", r.clock.now(), 1))
	j.KeyFile = t.TempDir() + "/key"
	broken = errors.New("no answer")
	if _, err := j.Join(t.Context()); err == nil || errors.Is(err, ErrRefused) {
		t.Fatalf("joined without a grant, or may not try again: %v", err)
	}
	broken = nil
	c, err := j.Join(t.Context())
	if err != nil || string(c.Granted()) != `"grant 2"` {
		t.Fatalf("%s, %v", c.Granted(), err)
	}
	if _, renewAt, _ := c.current(); renewAt.Sub(r.clock.now()) > 10*time.Minute {
		t.Errorf("renewed in %v, the grant is good for 20 minutes", renewAt.Sub(r.clock.now()))
	}
	broken = errors.New("no answer")
	if err := j.Renew(t.Context(), c); err != nil || string(c.Granted()) != `"grant 2"` {
		t.Errorf("%s, %v", c.Granted(), err)
	}
	broken = nil
	if err := j.Renew(t.Context(), c); err != nil || string(c.Granted()) != `"grant 4"` {
		t.Errorf("%s, %v", c.Granted(), err)
	}
}
