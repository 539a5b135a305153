package config

import (
	"strings"
	"testing"
	"time"
)

func TestCheckpointSet(t *testing.T) {
	p := Checkpoint{Restart: time.Minute}
	if err := p.Set(map[string]string{"model": "512MB", "bandwidth": "50M", "save": "30s", "overhead": "0.17"}); err != nil {
		t.Fatal(err)
	}
	if want := (Checkpoint{Model: Memory{MiB: 512}, Bandwidth: 50e6, Save: 30 * time.Second, Restart: time.Minute, Overhead: 0.17}); p != want {
		t.Errorf("set %+v, want %+v", p, want)
	}
	err := p.Set(map[string]string{"saves": "30s", "restart": "soon", "overhead": "17"})
	for _, want := range []string{`"saves" does not exist`, "restart: ", "overhead: 17 would make work take 18 times as long"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
