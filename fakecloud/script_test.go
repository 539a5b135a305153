package fakecloud

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStep(t *testing.T) {
	noon := time.Date(2014, 4, 5, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]Step{
		"at 6h kill oldest":         {Offset: 6 * time.Hour, Do: Kill, Target: "oldest"},
		"evict i-0123456789abcdef0": {Do: Evict, Target: "i-0123456789abcdef0"},
		"at 2014-04-05T12:00:00Z evict random 3 of us-west-1a/c3.xlarge": {Time: noon, Do: Evict, Target: "random", Count: 3, Of: "us-west-1a/c3.xlarge"},
		"at 10m no-capacity of c3.xlarge for 1h":                         {Offset: 10 * time.Minute, Do: NoCapacity, Of: "c3.xlarge", For: time.Hour},
		"at 1m30s slow-start x4 for 1h":                                  {Offset: 90 * time.Second, Do: SlowStart, Factor: 4, For: time.Hour},
		"slow-start boot 2s":                                             {Do: SlowStart, Boot: 2 * time.Second},
		"throttle for 2m":                                                {Do: Throttle, For: 2 * time.Minute},
		"rebalance all":                                                  {Do: Rebalance, Target: "all"},
		"at 1s evict-now newest 2":                                       {Offset: time.Second, Do: EvictNow, Target: "newest", Count: 2},
	} {
		got, err := ParseStep(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if got.String() != text {
			t.Errorf("%q prints as %q", text, got)
		}
	}
}

func TestParseStepRefuses(t *testing.T) {
	for _, text := range []string{
		"", "at 6h", "at noon kill oldest", "at -1h kill oldest", "explode all", "kill", "kill everything", "kill oldest 0x",
		"kill all 3", "kill i-0 3", "kill i-0 of c3.xlarge", "kill oldest for 1h", "kill oldest x3", "kill oldest -1", "no-capacity",
		"no-capacity oldest for 1h", "no-capacity for -1h", "no-capacity for", "throttle of c3.xlarge for 1h", "slow-start", "slow-start x-1",
		"slow-start xNaN", "slow-start x2 boot 2s", "throttle for 1h boot 2s", "kill oldest newest",
	} {
		if step, err := ParseStep(text); err == nil {
			t.Errorf("%q is taken as %q", text, step)
		}
	}
}

func TestScriptRoundTrip(t *testing.T) {
	text := "at 6h kill oldest\nat 10m no-capacity of us-west-1a for 1h30m\n"
	script, err := ParseScript("# two steps\n\n" + text + "  # no more\n")
	if err != nil || script.String() != text {
		t.Errorf("prints as %q, %v", script, err)
	}
	if _, err := ParseScript("kill oldest\nkill\n"); err == nil || err.Error()[:len("script line 2")] != "script line 2" {
		t.Errorf("the error does not name the line: %v", err)
	}
	asJSON, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	var back Script
	if err := json.Unmarshal(asJSON, &back); err != nil || !slices.Equal(script, back) {
		t.Errorf("JSON %s gives %v, %v", asJSON, back, err)
	}
}

func FuzzParseStep(f *testing.F) {
	f.Add("at 6h kill oldest 2 of c3.xlarge")
	f.Add("at 2014-04-05T12:00:00.5Z slow-start x0.25 for 3ns")
	f.Fuzz(func(t *testing.T, text string) {
		step, err := ParseStep(text)
		if err != nil {
			return
		}
		again, err := ParseStep(step.String())
		if err != nil || again != step {
			t.Errorf("%q is %+v, printed %q, read again %+v, %v", text, step, step, again, err)
		}
	})
}
