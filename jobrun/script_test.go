package jobrun

import (
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/fakecloud"
)

// The cloud does what a job's script says, and accepts each step.
func TestScript(t *testing.T) {
	got := script([]config.Action{
		{At: 2 * time.Hour, Do: "evict", Target: "newest", Count: 3},
		{At: 3 * time.Hour, Do: "no-capacity", Of: "c3.xlarge", For: 30 * time.Minute},
		{At: 4 * time.Hour, Do: "slow-start", For: time.Hour, Boot: 5 * time.Second},
		{At: 6 * time.Hour, Do: "kill", Target: "oldest"},
	}).String()
	want := "at 2h evict newest 3\nat 3h no-capacity of c3.xlarge for 30m\nat 4h slow-start boot 5s for 1h\nat 6h kill oldest\n"
	if got != want {
		t.Errorf("script\n%s, want\n%s", got, want)
	}
	if _, err := fakecloud.ParseScript(got); err != nil {
		t.Error(err)
	}
}
