package sweep

import (
	"testing"
	"time"

	"github.com/tierml/tierml/sim"
)

func BenchmarkStart8h(b *testing.B) {
	cfg := OnEC2(demo(b), 8*time.Hour)
	cfg.Policy = remembering(cfg.Policy, newMemory())
	for b.Loop() {
		if _, err := sim.Run(cfg); err != nil {
			b.Fatal(err)
		}
	}
}
