package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
)

// puppet stands in for a machine's programs and only records requests.
type puppet struct {
	mu       sync.Mutex
	spec     program.Spec
	starts   []program.Start
	saves    []uint64
	peers    []string
	stops    int
	notice   time.Time
	finished time.Duration
	report   func(program.Event)
}

func (p *puppet) Start(s program.Start) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Key == "bad" {
		return errors.New("no such key")
	}
	p.starts = append(p.starts, s)
	return nil
}

func (p *puppet) Notice(deadline time.Time, _ bool) { p.notice = deadline }
func (p *puppet) SetPeers(peers []string)           { p.peers = peers }
func (p *puppet) Save(round uint64)                 { p.saves = append(p.saves, round) }
func (p *puppet) Stop(time.Duration, bool)          { p.stops++ }
func (p *puppet) Finish(within time.Duration)       { p.finished = within }
func (p *puppet) Close()                            {}

// A node that receives a program hands it to the machine, obeys only for the newest attempt, forwards events, and names the attempt that it
// runs in its Hello.
func TestNodeRunsPrograms(t *testing.T) {
	tasks, ctx := errgroup.WithContext(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{}
	wall := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	n := newNode(Config{Log: slog.New(slog.DiscardHandler), Wall: func(time.Time) time.Time { return wall },
		NewPrograms: func(c program.Config) (Programs, error) {
			p.spec, p.report = c.Spec, c.Report
			if strings.Contains(c.Dir, " ") || c.Dir == "" {
				t.Errorf("it works in %q", c.Dir)
			}
			return p, nil
		}}, Identity{Instance: "i-1"}, UserData{Job: "run-1"}, listener, tasks)
	do := func(what tiers.Do) bool { return n.obeyProgram(ctx, tiers.Command{ID: 1, Do: what}) }
	n.noticeProgram(tiers.Warned{Deadline: wall}) // nothing runs yet

	spec, err := json.Marshal(program.Spec{Run: "true", Store: "/store"})
	if err != nil {
		t.Fatal(err)
	}
	run := tiers.RunProgram{Spec: spec, Attempt: 3, Key: "rank-0", Ranks: 2, Resume: "m", ResumeDigest: "d", Secrets: map[string]string{"K": "v"},
		Settings: map[string]string{"RATE": "0.1"}, Heartbeat: time.Hour, OrphanAfter: time.Minute}
	if !do(run) || n.hello().Incarnation != 3 || n.orphanAfter() != time.Minute {
		t.Errorf("%+v", n.hello())
	}
	if p.spec.Run != "true" || len(p.starts) != 1 || p.starts[0].Resume != "m" || p.starts[0].ResumeDigest != "d" || p.starts[0].Secrets["K"] != "v" || p.starts[0].Settings["RATE"] != "0.1" || p.starts[0].Run != "run-1" {
		t.Errorf("%+v, %+v", p.spec, p.starts)
	}
	if again, err := net.Listen("tcp", listener.Addr().String()); err != nil {
		t.Errorf("its port is not free for a gang to meet at: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	run.Attempt = 4
	do(run)
	do(tiers.SaveProgram{Attempt: 3, Round: 1})
	do(tiers.SaveProgram{Attempt: 4, Round: 2})
	do(tiers.SetPeers{Attempt: 3, Peers: []string{"1 old:1"}})
	if do(tiers.SetPeers{Attempt: 4, Peers: []string{"1 a:1"}}); !slices.Equal(p.peers, []string{"1 a:1"}) {
		t.Errorf("its peers are %v", p.peers)
	}
	do(tiers.StopProgram{Attempt: 3})
	if do(tiers.StopProgram{Attempt: 4}); !slices.Equal(p.saves, []uint64{2}) || p.stops != 1 {
		t.Errorf("saved %v, stopped %d times", p.saves, p.stops)
	}
	run.Key, run.Attempt = "bad", 5
	do(run)
	if do(tiers.Park{}) {
		t.Error("it took a command of training")
	}
	if n.noticeProgram(tiers.Warned{Deadline: wall.Add(-time.Hour)}); !p.notice.Equal(wall) {
		t.Errorf("told of %s", p.notice)
	}
	of := program.Of{Attempt: 4, Key: "rank-0"}
	p.report(program.Started{Of: of, Setup: time.Second, Bytes: 7, Step: 5})
	p.report(program.Advanced{Of: of, Reading: program.Reading{Step: 6, HasLoss: true, Loss: 0.5}})
	p.report(program.Saved{Of: of, Manifest: "n", Step: 6, Round: 2, Took: time.Second, Final: true})
	p.report(program.SaveFailed{Of: of, Reason: "full", Final: true})
	p.report(program.Exited{Of: of, Code: -1, Signal: "killed", Phase: program.Running, Asked: true})
	hears := func(controller string, many int) (got []tiers.Report) {
		line := n.take(&pb.ToNode{Controller: controller})
		for len(got) < many {
			letter, err := line.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			n.reports.Acknowledged(letter.Number)
			switch r := letter.Message.(type) {
			case tiers.Answer:
				if r.Code == tiers.CodeFailed && r.Error != "no such key" {
					t.Errorf("%+v", r)
				}
			case tiers.Heartbeat:
			default:
				got = append(got, r)
			}
		}
		return got
	}
	got := hears("first", 5)
	want := []tiers.Report{
		tiers.ProgramStarted{Attempt: 4, Setup: 1, Bytes: 7, Step: 5}, tiers.ProgramAdvanced{Attempt: 4, Step: 6, HasLoss: true, Loss: 0.5},
		tiers.ProgramSaved{Attempt: 4, Manifest: "n", Step: 6, Round: 2, Seconds: 1, Final: true}, tiers.ProgramSaveFailed{Attempt: 4, Error: "full", Final: true},
		tiers.ProgramExited{Attempt: 4, Signal: "killed", Phase: "run", Asked: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("reported\n%+v\nwant\n%+v", got, want)
	}
	// The next controller hears again how the newest attempt began, advanced and ended: the first may not have recorded it.
	if got := hears("second", 4); !slices.Equal(got, []tiers.Report{want[0], want[1], want[3], want[4]}) {
		t.Errorf("reported again\n%+v", got)
	}
	tasks.Go(func() error { return errOrphan })
	if err := tasks.Wait(); !errors.Is(err, errOrphan) || p.finished <= 0 || p.finished >= tiers.OrphanEnds {
		t.Errorf("in order within %v, %v", p.finished, err)
	}
}

// A machine that shuts down, for whatever reason, saves its program's state.
func TestShutdownFinishesPrograms(t *testing.T) {
	ctx, shut := context.WithCancel(t.Context())
	tasks, ctx := errgroup.WithContext(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{}
	n := newNode(Config{Log: slog.New(slog.DiscardHandler), NewPrograms: func(program.Config) (Programs, error) { return p, nil }},
		Identity{Instance: "i-1"}, UserData{Job: "run-1"}, listener, tasks)
	n.obeyProgram(ctx, tiers.Command{ID: 1, Do: tiers.RunProgram{Spec: []byte(`{}`), Attempt: 1, Key: "rank-0", Ranks: 1, Heartbeat: time.Hour, OrphanAfter: time.Minute}})
	shut()
	if err := tasks.Wait(); err != nil || p.finished <= 0 || p.finished+lastWordsGrace >= 9*time.Second {
		t.Errorf("in order within %v, %v", p.finished, err)
	}
}
