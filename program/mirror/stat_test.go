package mirror

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Same size, and same time on a coarse clock: the change is still detected.
func TestChangeWithinTheClocksGrain(t *testing.T) {
	second := time.Now().Truncate(time.Second).Add(time.Second)
	for name, at := range map[string]time.Time{"a file system that stores whole seconds": second, "the kernel's clock": second.Add(3_456_789)} {
		t.Run(name, func(t *testing.T) {
			m, dir := open(t, t.TempDir(), 1)
			for _, content := range []string{"aaaa", "bbbb"} {
				put(t, dir, "model", []byte(content))
				if err := os.Chtimes(filepath.Join(dir, "model"), at, at); err != nil {
					t.Fatal(err)
				}
				if saved := save(t, m, Selection{}); saved.Sent != 4 {
					t.Errorf("%s: %+v", content, saved)
				}
			}
		})
	}
}

// Times of this kernel's clock are finer than what an unknown file system may store.
func TestGrain(t *testing.T) {
	second := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		device uint64
		at     time.Time
		want   time.Duration
	}{
		{7, second.Add(3_456_789), ticks},
		{7, second, granular},
		{7, second.Add(20 * time.Millisecond), granular}, // exFAT stores multiples of 10 ms
		{0, second.Add(3_456_789), granular},             // a network's
		{8, second.Add(3_456_789), granular},             // mounted below the directory
	} {
		p := &pass{device: c.device}
		if got := p.grain(stat{dev: 7, changed: c.at.UnixNano()}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
