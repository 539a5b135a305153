package words

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

const pool = "ec2/us-west-1/us-west-1a/c3.xlarge/spot"

func at(seconds int) time.Time { return time.Date(2014, 5, 1, 12, 0, seconds, 0, time.UTC) }

// machine returns an entry about the nth machine.
func machine(kind journal.Kind, seconds, n int) journal.Entry {
	return journal.Entry{T: at(seconds), Kind: kind, Instance: fmt.Sprintf("i-%d", n), Tier: "transient", Pool: pool}
}

func tell(window time.Duration, entries ...journal.Entry) string {
	g := Grouper{Window: window}
	var b strings.Builder
	for _, e := range entries {
		for _, l := range g.Add(e) {
			fmt.Fprintln(&b, l.T.Format("05"), l)
		}
	}
	for _, l := range g.Flush() {
		fmt.Fprintln(&b, l.T.Format("05"), l)
	}
	return b.String()
}

func TestGrouper(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []journal.Entry
		want    string
	}{
		{"interleaved", []journal.Entry{
			machine(journal.Launch, 1, 1), machine(journal.Launch, 1, 2), machine(journal.Join, 3, 1), machine(journal.Launch, 4, 3), machine(journal.Join, 5, 2),
		}, "01 launched 3 transient machines of c3.xlarge us-west-1a\n03 2 transient machines of c3.xlarge us-west-1a join\n"},
		{"too far apart", []journal.Entry{machine(journal.Join, 1, 1), machine(journal.Join, 30, 2)},
			"01 transient machine i-1 of c3.xlarge us-west-1a joins\n30 transient machine i-2 of c3.xlarge us-west-1a joins\n"},
		{"closed by what follows from it", []journal.Entry{
			machine(journal.Join, 1, 1), {T: at(2), Kind: journal.Stage, From: "1", To: "2", Transient: 2, Reliable: 1, Why: "ratio"}, machine(journal.Join, 3, 2),
		}, "01 transient machine i-1 of c3.xlarge us-west-1a joins\n02 stage 1 -> 2: 2 transient, 1 reliable (ratio)\n03 transient machine i-2 of c3.xlarge us-west-1a joins\n"},
		{"a notice that comes twice", []journal.Entry{machine(journal.Notice, 1, 1), machine(journal.Notice, 2, 1)},
			"01 raised risk of eviction for transient machine i-1 of c3.xlarge us-west-1a\n"},
		{"not worth a line", []journal.Entry{{T: at(1), Kind: journal.ClockDone}, {T: at(1), Kind: journal.Price}, {T: at(1), Kind: journal.Cut}}, ""},
		{"first stage", []journal.Entry{{T: at(1), Kind: journal.Stage, From: "0", To: "1", Reliable: 1}}, "01 stage 1: 0 transient, 1 reliable\n"},
		{"on-demand bid", []journal.Entry{{T: at(1), Kind: journal.Launch, Instance: "i-1", Pool: pool, Bid: "0"}}, "01 launched machine i-1 of c3.xlarge us-west-1a\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tell(10*time.Second, c.entries...); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// A story's lines are in order, and each event of a machine is in one line.
func TestStoryInWords(t *testing.T) {
	story := journaltest.New(1)
	g := Grouper{Window: 10 * time.Minute}
	var lines []Line
	for _, e := range story.Entries {
		lines = append(lines, g.Add(e)...)
	}
	lines = append(lines, g.Flush()...)
	told := map[string]int{}
	for i, l := range lines {
		if i > 0 && l.T.Before(lines[i-1].T) {
			t.Errorf("%s: %q comes after %s: %q", l.T, l, lines[i-1].T, lines[i-1])
		}
		if l.Text == "" || strings.Contains(l.Text, "%!") {
			t.Errorf("%s has no words: %q", l.Kind, l.Text)
		}
		for _, id := range l.Instances {
			told[string(l.Kind)+id]++
		}
	}
	for _, e := range story.Entries {
		if aboutMachines(e.Kind) && told[string(e.Kind)+e.Instance] != 1 {
			t.Errorf("%s of %s is told %d times", e.Kind, e.Instance, told[string(e.Kind)+e.Instance])
		}
	}
	if len(lines) > 44 {
		t.Errorf("%d lines are too many to read", len(lines))
	}
}

func TestDuration(t *testing.T) {
	for seconds, want := range map[float64]string{0: "unknown", 45: "45 s", 720: "12 min", 32400: "9.0 h", 363000: "4.2 d"} {
		if got := Duration(seconds); got != want {
			t.Errorf("%v: %s, want %s", seconds, got, want)
		}
	}
}

// The reason for an end tells who stopped the run.
func TestEnded(t *testing.T) {
	for why, want := range map[string]string{"SIGTERM": "stopped by SIGTERM", "the dashboard": "stopped by the dashboard", "SIGHUP: the terminal is gone": "stopped by SIGHUP: the terminal is gone",
		"a user asked": "stopped by a user", "max_duration 24h0m0s is over": "max_duration 24h0m0s is over", "the program is done": "the program is done", "": ""} {
		if got := Ended(why); got != want {
			t.Errorf("%q: %q, not %q", why, got, want)
		}
	}
}
