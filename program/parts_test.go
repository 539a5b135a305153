package program

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/program/mirror"
	"github.com/tierml/tierml/program/pack"
)

func TestProgressFromLinesAndFiles(t *testing.T) {
	for _, c := range []struct {
		expression, line string
		step             int64
		loss             float64
		any              bool
	}{
		{`step (\d+)`, "now at step 12 of 100", 12, math.NaN(), true},
		{`step (\d+), loss (\S+)`, "step 12, loss 1e-3", 12, 1e-3, true},
		{`loss (?P<loss>\S+) at (?P<step>\d+)`, "loss 0.5 at 7", 7, 0.5, true},
		{`(\d+)/\d+ \[`, " 12%|#   | 12/100 [00:01<", 12, math.NaN(), true},
		{`step (\S+)`, "step 1,200", 1200, math.NaN(), true},
		{`step (\S+)`, "step unknown", 0, 0, false},
		{`step (\d+)`, "something else", 0, 0, false},
		{"", "step 1", 0, 0, false},
	} {
		var p progress
		if m := p.matcher(c.expression); m != nil {
			m(c.line)
		}
		got, any := p.get()
		if any != c.any || any && (got.Step != c.step || got.HasLoss == math.IsNaN(c.loss) || got.HasLoss && got.Loss != c.loss) {
			t.Errorf("%q in %q: %+v %v", c.expression, c.line, got, any)
		}
	}
	name := filepath.Join(t.TempDir(), "progress")
	for text, want := range map[string]string{
		"7\n": "{7 false 0}", "7 0.5\n": "{7 true 0.5}", "1\n2 0.1\n3": "{2 true 0.1}", "5": "{5 false 0}", strings.Repeat("x\n", 4000) + "9 1\n": "{9 true 1}",
		"": "{0 false 0}", "words\n": "{0 false 0}", "3 nan\n": "{3 true NaN}",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var p progress
		p.files(name, "")
		if got, _ := p.get(); fmt.Sprint(got) != want {
			t.Errorf("%.20q: %v, want %s", text, got, want)
		}
	}
}

// The loss at a rung is the first one there, however rarely it is polled.
func TestRungs(t *testing.T) {
	folder := t.TempDir()
	name, rungs := filepath.Join(folder, "progress"), filepath.Join(folder, "rungs")
	for file, text := range map[string]string{name: "17 0.1\n", rungs: "5 0.5\n10 nan\n1"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := progress{rungs: []int64{5, 9, 15}}
	p.set(Reading{Step: 6}) // without a loss: it does not count for a rung
	p.files(name, rungs)
	if got := fmt.Sprint(p.atRungs()); got != "[{5 true 0.5} {10 true NaN} {17 true 0.1}]" {
		t.Error(got)
	}
	if got := p.atRungs(); len(got) > 0 {
		t.Errorf("reported again: %v", got)
	}
	lines := progress{rungs: []int64{5, 9}}
	take := lines.matcher(`step (\d+) loss (\S+)`)
	for step := range 12 {
		take(fmt.Sprintf("step %d loss 0.%d", step, step))
	}
	if got := fmt.Sprint(lines.atRungs()); got != "[{5 true 0.5} {9 true 0.9}]" {
		t.Error(got)
	}
}

// A progress bar that overwrites its line, a line of millions of characters and an end without a line break.
func TestOutput(t *testing.T) {
	var lines []string
	name := filepath.Join(t.TempDir(), "log")
	o, err := newOutput(name, map[string]string{"SHORT": "1", "LONG": "secret-secret"}, func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a 1\rb 1\nc", "d secret-", "secret\n", strings.Repeat("x", 3*mostLine), "\nend"} {
		if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	o.end()
	if tail, err := o.last(); err != nil || !strings.HasSuffix(tail, "xx\nend") || len(tail) > tailBytes {
		t.Errorf("%q %v", tail, err)
	}
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	if want := "a 1|b 1|cd ***|" + strings.Repeat("x", mostLine) + "|end"; strings.Join(lines, "|") != want {
		t.Errorf("%d lines: %.100q", len(lines), lines)
	}
	if text, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(text), "a 1\nb 1\ncd ***\nxxx") {
		t.Errorf("%.40q %v", text, err)
	}
}

// A log has the last state of a progress bar, and occasionally an earlier one.
func TestProgressBarsBecomeLines(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		texts []string // a second apart
		want  string
	}{
		{[]string{"a\nb", "c\n"}, "a\nbc\n"},
		{[]string{"a\r\nb\r", "\nc"}, "a\nb\nc"},
		{[]string{"0%\r10%\r20", "%\r30%\r40%\n"}, "0%\n10%\n40%\n"},
		{[]string{"\r10%", "\r20%", "\r30%"}, "10%\n30%"},
		{append(slices.Repeat([]string{"\rx"}, 12), "\ry", "\n"), "x\nx\ny\n"},
		{[]string{"bar\r   \rdone\n"}, "bar\ndone\n"},
	} {
		var b bars
		got := ""
		for i, text := range c.texts {
			got += string(b.feed([]byte(text), start.Add(time.Duration(i)*time.Second), false))
		}
		if got += string(b.feed(nil, start.Add(time.Minute), true)); got != c.want {
			t.Errorf("%q: %q, want %q", c.texts, got, c.want)
		}
	}
}

func TestLogsInPieces(t *testing.T) {
	store, file := t.TempDir(), filepath.Join(t.TempDir(), "log")
	ship := newShipper(file, store, "task-2", 3)
	whole := ""
	for i, text := range []string{"one\n", "", strings.Repeat("y", mostPiece+5), "two\n"} {
		whole += text
		if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ship.ship(t.Context()); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, from := range []int{0, 2, 4, 10, len(whole) - 2, len(whole), len(whole) + 1} {
		var b strings.Builder
		next, err := CopyLog(t.Context(), &b, store, LogName{"task-2", 3}, int64(from))
		if err != nil || next != int64(max(from, len(whole))) || b.String() != whole[min(from, len(whole)):] {
			t.Errorf("from %d: %d bytes, then from %d, %v", from, b.Len(), next, err)
		}
	}
	for _, l := range []LogName{{"task-10", 1}, {"task-2", 10}} {
		if err := newShipper(file, store, l.Key, l.Attempt).ship(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := Logs(t.Context(), store); err != nil || fmt.Sprint(all) != "[{task-2 3} {task-2 10} {task-10 1}]" {
		t.Errorf("%v %v", all, err)
	}
}

func TestSpecCheck(t *testing.T) {
	for want, spec := range map[string]Spec{
		"there is no command to run":                  {Run: " \n"},
		`the state "../x" must be below`:              {Run: "x", State: "../x"},
		`the state "." must be below`:                 {Run: "x", State: "."},
		`the progress file "/tmp/x" must be below`:    {Run: "x", File: "/tmp/x"},
		"the expression for progress: error parsing":  {Run: "x", Line: "("},
		`"step" has no group for the step: write ste`: {Run: "x", Line: "step"},
	} {
		if err := spec.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// The folder arrives with its digest checked; its part of the state is there when a program starts over.
func TestFolder(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	for name, text := range map[string]string{"train.sh": "cat state/model; echo $1 > state/model", "state/model": "pretrained\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(t.TempDir(), "workdir.tar.zst")
	file, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := pack.Pack(t.Context(), from, file, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, Spec{Run: "bash train.sh $TIERML_TASK", State: "state", Workdir: archive, WorkdirDigest: packed.Digest})
	for task := range 2 {
		s.begin(Start{Attempt: 1, Key: fmt.Sprint("task-", task), Task: task, Tasks: 2})
		e := wait(s, func(e Exited) bool { return e.Key == fmt.Sprint("task-", task) })
		if e.Code != 0 || e.Tail != "pretrained" {
			t.Errorf("%+v", e)
		}
	}
	s = newSite(t, Spec{Run: "true", Workdir: archive, WorkdirDigest: strings.Repeat("0", 64)})
	if err := s.Start(Start{Attempt: 1, Key: "rank-0"}); err != nil {
		t.Fatal(err)
	}
	if e := s.exit(1); e.Phase != Fetching || !strings.Contains(e.Note, "is not what was packed") {
		t.Errorf("%+v", e)
	}
}

// Regular saves happen while the program runs; unchanged data is not sent again.
func TestRegularSaves(t *testing.T) {
	t.Parallel()
	s := newSite(t, Spec{State: "state", Every: 200 * time.Millisecond, Run: `head -c 100000 /dev/zero > state/frozen; for i in $(seq 1000); do echo $i > state/n.tmp; mv state/n.tmp state/n; sleep 0.02; done`})
	s.begin(Start{Attempt: 1})
	last := wait(s, func(e Saved) bool { return strings.HasSuffix(e.Manifest, "-00000004") })
	if last.Sent > 100 || last.Final || last.Bytes < 100_000 {
		t.Errorf("%+v", last)
	}
}

// Two machines both think they are rank 0: the older one gets an error, and its state does not count.
func TestTwoMachinesOfOneRank(t *testing.T) {
	t.Parallel()
	spec := Spec{State: "state", Run: `echo $TIERML_ATTEMPT > state/n; echo > ready; sleep 1000`, Store: filepath.Join(t.TempDir(), "store")}
	old, newer := newSite(t, spec), newSite(t, spec)
	old.begin(Start{Attempt: 1})
	old.appears("ready")
	newer.begin(Start{Attempt: 2})
	newer.appears("ready")
	old.Save(0)
	if e := wait[SaveFailed](old, nil); !e.TakenOver || !strings.Contains(e.Reason, "attempt 2 writes the state of rank-0") {
		t.Errorf("%+v", e)
	}
	newer.Save(7)
	saved := wait[Saved](newer, nil)
	if saved.Round != 7 {
		t.Errorf("%+v", saved)
	}
	third := newSite(t, spec)
	if err := third.Start(Start{Attempt: 1, Key: "rank-0"}); err != nil {
		t.Fatal(err)
	}
	if e := third.exit(1); e.Phase != Restoring || !strings.Contains(e.Note, "a newer attempt has taken over") {
		t.Errorf("%+v", e)
	}
}

// For a damaged state a single program falls back; one rank of several does not, as states would mix.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	spec := Spec{State: "state", Run: `cat state/n > seen || true; echo $TIERML_ATTEMPT > state/n; echo > ready; sleep 1000`, Store: filepath.Join(t.TempDir(), "store")}
	s := newSite(t, spec)
	var saved []Saved
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	for i := range 2 {
		if err := os.WriteFile(s.path("state/n"), []byte(fmt.Sprint("generation ", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Save(uint64(i + 1))
		saved = append(saved, wait(s, func(e Saved) bool { return e.Round == uint64(i+1) }))
	}
	m, err := mirror.Read(t.Context(), s.store, "rank-0", saved[1].Manifest, saved[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.store, "state", "rank-0", "chunks", m.Files[0].Chunks[0]), []byte("generation X"), 0o600); err != nil {
		t.Fatal(err)
	}
	gang := newSite(t, spec)
	if err := gang.Start(Start{Attempt: 2, Key: "rank-0", Ranks: 2, Resume: saved[1].Manifest}); err != nil {
		t.Fatal(err)
	}
	if e := gang.exit(2); e.Phase != Restoring || e.Asked || !strings.Contains(e.Note, "the saved state is damaged: chunk") {
		t.Errorf("%+v", e)
	}
	alone := newSite(t, spec)
	started := alone.begin(Start{Attempt: 3, Resume: saved[1].Manifest, ResumeDigest: saved[1].Digest})
	if got := alone.appears("seen"); got != "generation 0" || started.Manifest != saved[0].Manifest || !strings.Contains(started.Note, "was restored instead") {
		t.Errorf("%q %+v", got, started)
	}
}

// A state larger than the machine's disk is not restored, and the error says by how much.
func TestStateLargerThanTheDisk(t *testing.T) {
	t.Parallel()
	spec := Spec{State: "state", Run: `head -c 2000000 /dev/zero > state/n`, Store: filepath.Join(t.TempDir(), "store")}
	s := newSite(t, spec)
	s.begin(Start{Attempt: 1})
	saved := wait(s, func(e Saved) bool { return e.Final })
	small := newSite(t, spec)
	small.space = func(string) (free, total uint64, err error) { return 1_500_000, 9_000_000, nil }
	if err := small.Start(Start{Attempt: 2, Key: "rank-0", Resume: saved.Manifest, ResumeDigest: saved.Digest}); err != nil {
		t.Fatal(err)
	}
	if e := small.exit(2); e.Phase != Restoring || e.Asked || !strings.Contains(e.Note, "the state of 2 MB does not fit on the machine's disk, of which 1 MB of 9 MB are free") {
		t.Errorf("%+v", e)
	}
	large := newSite(t, spec)
	if started := large.begin(Start{Attempt: 3, Resume: saved.Manifest, ResumeDigest: saved.Digest}); started.Bytes != 2_000_000 {
		t.Errorf("%+v", started)
	}
}

// A store that does not answer for minutes delays a program; if it stays away for longer, or refuses, the attempt ends.
func TestStoreIsWaitedFor(t *testing.T) {
	away := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		back  time.Duration // when the store answers
		err   error
		tries int // at least
		good  bool
	}{
		"back after a minute": {time.Minute, away, 6, true},
		"away for good":       {time.Hour, away, 40, false},
		"refused":             {time.Hour, errors.New("denied"), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				output, err := newOutput(filepath.Join(t.TempDir(), "log"), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer output.close()
				a, began, tries := &attempt{output: output}, time.Now(), 0
				err = a.patiently(t.Context(), hostfault.Away, func() error {
					if tries++; time.Since(began) >= c.back {
						return nil
					}
					return c.err
				})
				if (err == nil) != c.good || tries < c.tries || time.Since(began) > storePatience+time.Minute {
					t.Errorf("%v after %d tries and %s", err, tries, time.Since(began))
				}
			})
		})
	}
}

// A gang whose controller is gone ends cleanly, each rank by itself. The next attempt begins from what all have saved by then, though no
// controller knows of it.
func TestGangSavedWithoutAController(t *testing.T) {
	t.Parallel()
	spec := Spec{State: "state", Store: filepath.Join(t.TempDir(), "store"),
		Run: `n=$(cat state/n 2>&-) || :; trap 'echo last $TIERML_RANK >state/n; exit 143' TERM; echo "$TIERML_RESUMED $n" >ready; while :; do sleep 0.01; done`}
	for attempt, want := range []string{"0 \n", "1 last %d\n"} {
		var sites []*site
		for rank := range 2 {
			s := newSite(t, spec)
			s.begin(Start{Attempt: uint64(attempt + 1), Key: fmt.Sprintf("rank-%d", rank), Rank: rank, Ranks: 2})
			if got, want := s.appears("ready"), strings.Replace(want, "%d", fmt.Sprint(rank), 1); got != want {
				t.Errorf("attempt %d of rank %d begins with %q, not %q", attempt+1, rank, got, want)
			}
			sites = append(sites, s)
		}
		for _, s := range sites {
			s.Finish(patience)
		}
	}
}

// A machine whose clock is five minutes ahead or behind has time to save at a notice, and does not wait longer than the longest notice.
func TestNoticeByAWrongClock(t *testing.T) {
	now := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]time.Duration{
		2 * time.Minute: 2 * time.Minute, 30 * time.Second: 30 * time.Second, 0: undated, -3 * time.Minute: undated, 7 * time.Minute: 2 * time.Minute,
	} {
		if got := byThisClock(now.Add(left), now).Sub(now); got != want {
			t.Errorf("of a notice that leaves %v by this clock %v are used, not %v", left, got, want)
		}
	}
	if at := byThisClock(time.Time{}, now); !at.IsZero() {
		t.Errorf("a notice without a deadline gets %v", at)
	}
}

// The same through a whole attempt: the program gets its SIGTERM, and what it writes then is saved.
func TestNoticePastByThisClock(t *testing.T) {
	t.Parallel()
	s := newSite(t, Spec{State: "state", Run: `trap 'echo last >state/n; exit 143' TERM; echo 1 >ready; while :; do sleep 0.01; done`})
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	s.Notice(time.Now().Add(-5*time.Minute), false)
	if saved := wait(s, func(e Saved) bool { return e.Final }); saved.Bytes != 5 {
		t.Errorf("%+v", saved)
	}
}
