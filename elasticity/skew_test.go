package elasticity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
)

// The provider's clock and the controller's are five minutes apart, either way. A warned eviction loses nothing, no machine is forgotten or
// considered gone, launches are answered, and the run ends with every bill (finish checks that).
func TestClocksFiveMinutesApart(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(ahead, " ", seed), func(t *testing.T) {
				w := newWorld(seed, plain())
				w.cloud.ahead = ahead
				w.ctrl.configure(func(c *Config) { c.Notice = 4 * time.Second })
				w.cutSize = func(time.Duration) (int64, float64) { return 10 * mega, 0.5 }
				w.after(6*time.Second, func() {
					w.policy.count = 0
					w.dirty = 10 * mega
					w.evict(4*time.Second, w.spot()...)
				})
				w.after(11*time.Second, func() { w.policy.count = 5 })
				finish(t, w, "finished")
				for _, e := range w.entries {
					switch {
					case e.Kind == journal.Rollback || e.Redone:
						t.Errorf("a warned eviction must not lose work: %s", line(e))
					case e.Kind == journal.Notice && !e.Deadline.After(e.T), e.Kind == journal.Notice && e.Deadline.Sub(e.T) > fleet.LongestNotice:
						t.Errorf("%v of a notice are left: %s", e.Deadline.Sub(e.T), line(e))
					case e.Kind == journal.Notice && !strings.Contains(e.Why, "the provider says"):
						t.Errorf("it does not say that clocks differ: %s", line(e))
					case strings.Contains(e.Why, "nothing can be flushed"), strings.Contains(e.Why, fleet.NotListed):
						t.Error(line(e))
					}
				}
			})
		}
	}
}
