package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// The plan says what is run, what is sent where and what that costs, and if a state does not fit into a notice.
func TestPlanOfAProgram(t *testing.T) {
	small := &Program{Count: 1, Hours: 3, On: "c3.xlarge", Basis: "as measured by own-1", Store: "s3://bucket/x", State: "ckpt", Every: 10 * time.Minute,
		StateBytes: 40 << 20, Rate: 100e6, Notice: 2 * time.Minute, Workdir: Workdir{Path: "finetune", Files: 3, Bytes: 1200, Packed: 700}}
	large := *small
	large.StateBytes, large.Tasks, large.Count = 96e9, 24, 4
	write := func(p *Program) string {
		var b terminal.Text
		(&Plan{Input: Input{Program: p}}).writeProgram(&b, Style{})
		return strings.Join(strings.Fields(b.String()), " ")
	}
	for _, words := range []string{"one on 1 machine; each takes 3h on one c3.xlarge, as measured by own-1",
		"1.2 kB in 3 files of finetune go to s3://bucket/x, and once to each machine (700 B packed)",
		// 12 requests 6 times an hour at $0.005 a thousand, and twice 42 MB at $0.023 a GB and month
		"ckpt, 41.9 MB, is mirrored every 10m to s3://bucket/x: at most 400ms a time, at most $0.0004 an hour at S3's prices"} {
		if text := write(small); !strings.Contains(text, words) {
			t.Errorf("%q is not in:\n%s", words, text)
		}
	}
	if text := write(&large); !strings.Contains(text, "24 tasks, 4 at a time") {
		t.Error(text)
	}
	for words, p := range map[string]*Program{"0.5 cores' worth of processor time, at most 1.0 MB of memory in one process, in the last run: more vCPUs would not": {Cores: .5},
		"in the last run: all of the one core that its machine had; if it has several threads,": {Cores: .97, Single: true},
		"in the last run: all that it could get":                                                {Cores: 1.9, Filled: true},
		"in the last run: all that it could get; its threads waited for 2.3 cores more":         {Cores: 1.6, Wanted: 3.9, Filled: true}} {
		p.Count, p.Memory = 1, 1e6
		if text := write(p); !strings.Contains(text, words) {
			t.Errorf("%q is not in:\n%s", words, text)
		}
	}
	if said := small.tooLarge(); said != "" {
		t.Error(said)
	}
	if said := large.tooLarge(); !strings.Contains(said, "96.0 GB, takes about 16m0s to the store") || !strings.Contains(said, "longer than the notice of 2m0s") {
		t.Error(said)
	}
	// Larger than a machine: than its disk, or than the memory of some types.
	pools := []bidding.Candidate{{Type: market.InstanceType{Name: "c3.xlarge", MemoryMiB: 7680}}, {Type: market.InstanceType{Name: "x1.32xlarge", MemoryMiB: 1952 << 10}},
		{Type: market.InstanceType{Name: "unknown"}}, {Type: market.InstanceType{Name: "c3.xlarge", MemoryMiB: 7680}}}
	if said := large.beyondMemory(pools); !strings.Contains(said, "96.0 GB, is larger than the memory of c3.xlarge:") {
		t.Error(said)
	}
	if said := small.beyondMemory(pools); said != "" {
		t.Error(said)
	}
	if said := large.Overflow(); said != "" {
		t.Errorf("on an unknown disk: %s", said)
	}
	large.Disk = 16 << 30
	if said := large.Overflow(); said != "the state in ckpt was 96.0 GB in the last run, and a machine's disk has 17.2 GB" {
		t.Error(said)
	}
	if large.Disk = 96e9; large.Overflow() != "" {
		t.Error(large.Overflow())
	}
}
