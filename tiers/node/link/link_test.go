package link

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/wire"
)

// peer is the other end, driven by hand: tiers/node is tested with the real one.
type peer struct {
	t      *testing.T
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	stream pb.Control_AttachClient
}

func withLink(t *testing.T, backlog int, f func(l *Link, dial func() *peer)) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		l, err := Listen(t.Context(), Config{Listener: listener, Log: slog.New(slog.DiscardHandler), Backlog: backlog,
			Accept: func(h tiers.Hello) error {
				if h.Token != "right" {
					return errors.New("wrong token")
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		dial := func() *peer {
			conn, err := grpc.NewClient("passthrough:///link", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := pb.NewControlClient(conn).Attach(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return &peer{t: t, conn: conn, cancel: cancel, stream: stream}
		}
		f(l, dial)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (p *peer) say(r tiers.Report, set func(*pb.FromNode)) {
	p.t.Helper()
	if err := p.send(r, set); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(r tiers.Report, set func(*pb.FromNode)) error {
	m, err := wire.EncodeReport(r)
	if err != nil {
		return err
	}
	set(m)
	if err := p.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// hello sends the peer's identity and reads the greeting. It may run in its own goroutine: the link greets each peer
// that it has reported.
func (p *peer) hello(id ps.ServerID, process string, received uint64) *pb.ToNode {
	p.t.Helper()
	err := p.send(tiers.Hello{Token: "right", Instance: id}, func(m *pb.FromNode) { m.Process, m.Received = process, received })
	if err != nil {
		p.t.Error(err)
		return nil
	}
	greeting, err := p.stream.Recv()
	if err != nil {
		p.t.Error(err)
	}
	return greeting
}

// command reads the next command, past acknowledgements.
func (p *peer) command() (tiers.Command, uint64) {
	p.t.Helper()
	for {
		m, err := p.stream.Recv()
		if err != nil {
			p.t.Fatal(err)
		}
		if m.GetNumber() == 0 {
			continue
		}
		c, err := wire.DecodeCommand(m)
		if err != nil {
			p.t.Fatal(err)
		}
		return c, m.GetNumber()
	}
}

func (p *peer) close() {
	p.cancel()
	if err := p.conn.Close(); err != nil {
		p.t.Error(err)
	}
}

func numbered(n uint64) func(*pb.FromNode) { return func(m *pb.FromNode) { m.Number = n } }

func wantHello(t *testing.T, l *Link, id ps.ServerID) {
	t.Helper()
	r := <-l.Reports()
	if _, ok := r.Report.(tiers.Hello); !ok || r.ID != id {
		t.Fatalf("heard %+v; want a hello of %s", r, id)
	}
}

func wantDisconnected(t *testing.T, l *Link, id ps.ServerID) {
	t.Helper()
	if r := <-l.Reports(); r.Disconnected == nil || r.Report != nil || r.ID != id {
		t.Fatalf("heard %+v; want that %s disconnected", r, id)
	}
}

func send(t *testing.T, l *Link, id ps.ServerID, n uint64) {
	t.Helper()
	if err := l.Send(id, tiers.Command{ID: n, Do: tiers.Park{}}); err != nil {
		t.Fatal(err)
	}
}

func TestCommandsArriveInOrder(t *testing.T) {
	withLink(t, 0, func(l *Link, dial func() *peer) {
		p := dial()
		defer p.close()
		go p.hello("i-1", "a", 0)
		wantHello(t, l, "i-1")
		for n := range uint64(100) {
			send(t, l, "i-1", n)
		}
		synctest.Wait()
		for n := range uint64(100) {
			if c, _ := p.command(); c.ID != n {
				t.Fatalf("command %d came in place of %d", c.ID, n)
			}
		}
	})
}

// A stream that breaks loses nothing: unacknowledged commands are repeated, and repeated reports are heard once.
func TestAConversationOutlivesItsStream(t *testing.T) {
	withLink(t, 0, func(l *Link, dial func() *peer) {
		first := dial()
		go first.hello("i-1", "a", 0)
		wantHello(t, l, "i-1")
		synctest.Wait()
		first.say(tiers.CutHeld{Cut: 1}, numbered(1))
		if r := <-l.Reports(); r.Report != (tiers.CutHeld{Cut: 1}) {
			t.Fatalf("heard %+v", r)
		}
		send(t, l, "i-1", 71)
		send(t, l, "i-1", 72)
		_, got := first.command()
		first.close()
		wantDisconnected(t, l, "i-1")
		send(t, l, "i-1", 73)

		second := dial()
		defer second.close()
		greeted := make(chan *pb.ToNode, 1)
		go func() { greeted <- second.hello("i-1", "a", got) }()
		wantHello(t, l, "i-1")
		if g := <-greeted; g.GetReceived() != 1 {
			t.Errorf("the link says that it has reports up to %d; want 1", g.GetReceived())
		}
		for _, want := range []uint64{72, 73} {
			if c, _ := second.command(); c.ID != want {
				t.Errorf("command %d; want %d", c.ID, want)
			}
		}
		second.say(tiers.CutHeld{Cut: 1}, numbered(1))
		second.say(tiers.CutHeld{Cut: 2}, numbered(2))
		if r := <-l.Reports(); r.Report != (tiers.CutHeld{Cut: 2}) {
			t.Errorf("heard %+v; want the second report, once", r)
		}
	})
}

// A new stream ends the old one, and messages of the old one come first.
func TestANewStreamReplacesTheOld(t *testing.T) {
	withLink(t, 0, func(l *Link, dial func() *peer) {
		first, second := dial(), dial()
		defer first.close()
		defer second.close()
		go first.hello("i-1", "a", 0)
		wantHello(t, l, "i-1")
		go second.hello("i-1", "a", 0)
		wantDisconnected(t, l, "i-1")
		wantHello(t, l, "i-1")
		synctest.Wait()
		if _, err := first.stream.Recv(); status.Code(err) != codes.Aborted {
			t.Errorf("the old stream ended with %v", err)
		}
		send(t, l, "i-1", 5)
		if c, _ := second.command(); c.ID != 5 {
			t.Errorf("command %d on the new stream; want 5", c.ID)
		}
	})
}

// Commands for a dead process are not sent to the next one on the same machine.
func TestANewProcessGetsNoOldCommands(t *testing.T) {
	withLink(t, 0, func(l *Link, dial func() *peer) {
		first := dial()
		go first.hello("i-1", "a", 0)
		wantHello(t, l, "i-1")
		synctest.Wait()
		first.say(tiers.CutHeld{Cut: 1}, numbered(1))
		<-l.Reports()
		first.close()
		wantDisconnected(t, l, "i-1")
		send(t, l, "i-1", 5)
		second := dial()
		defer second.close()
		go second.hello("i-1", "b", 0)
		wantHello(t, l, "i-1")
		synctest.Wait()
		second.say(tiers.CutHeld{Cut: 9}, numbered(1))
		if r := <-l.Reports(); r.Report != (tiers.CutHeld{Cut: 9}) {
			t.Errorf("heard %+v of the new process", r)
		}
		send(t, l, "i-1", 6)
		if c, n := second.command(); c.ID != 6 || n != 1 {
			t.Errorf("the new process got command %d as number %d; want 6 as 1", c.ID, n)
		}
	})
}

func TestRefusedPeersReportsAreDropped(t *testing.T) {
	withLink(t, 0, func(l *Link, dial func() *peer) {
		for name, c := range map[string]struct {
			first   tiers.Report
			process string
			want    codes.Code
		}{
			"wrong token": {tiers.Hello{Token: "guessed", Instance: "i-1"}, "a", codes.PermissionDenied},
			"no name":     {tiers.Hello{Token: "right"}, "a", codes.InvalidArgument},
			"no process":  {tiers.Hello{Token: "right", Instance: "i-1"}, "", codes.InvalidArgument},
			"no hello":    {tiers.CutHeld{}, "a", codes.InvalidArgument},
		} {
			p := dial()
			p.say(c.first, func(m *pb.FromNode) { m.Process = c.process })
			if _, err := p.stream.Recv(); status.Code(err) != c.want {
				t.Errorf("%s: %v; want %v", name, err, c.want)
			}
			p.close()
		}
		synctest.Wait()
		select {
		case r := <-l.Reports():
			t.Errorf("heard %+v", r)
		default:
		}
		if err := l.Send("i-1", tiers.Command{Do: tiers.Park{}}); !errors.Is(err, ErrUnknownNode) {
			t.Errorf("sending to a refused node: %v", err)
		}
	})
}

// Send does not wait for a node that receives nothing; eventually it refuses.
func TestSendNeverWaits(t *testing.T) {
	withLink(t, 3, func(l *Link, dial func() *peer) {
		p := dial()
		go p.hello("i-1", "a", 0)
		wantHello(t, l, "i-1")
		synctest.Wait()
		p.close()
		wantDisconnected(t, l, "i-1")
		for n := range uint64(3) {
			send(t, l, "i-1", n)
		}
		if err := l.Send("i-1", tiers.Command{Do: tiers.Park{}}); !errors.Is(err, ErrBacklog) {
			t.Errorf("the fourth of three: %v", err)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	withLink(t, 0, func(l *Link, dial func() *peer) {
		p := dial()
		defer p.close()
		go p.hello("i-1", "a", 0)
		wantHello(t, l, "i-1")
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if r, open := <-l.Reports(); open {
			t.Errorf("heard %+v after the end", r)
		}
		if err := l.Receive(context.Background(), nil); err == nil || errors.Is(err, ErrUnknownNode) || !strings.Contains(err.Error(), "closed") {
			t.Errorf("listening to a closed link: %v", err)
		}
	})
}

// A report with numbers beyond the job's bounds reaches no receiver, and ends its stream.
func TestReportsOfNonsense(t *testing.T) {
	for name, report := range map[string]tiers.Report{
		"marks of none": tiers.Answer{ID: 1, Result: tiers.Standings{Partitions: []tiers.Standing{{Partition: 1}}}},
		"partition":     tiers.Answer{ID: 1, Result: tiers.Holdings{Owned: []ps.Partition{1 << 31}}},
		"split":         tiers.Progress{Clock: 1, Splits: []tiers.SplitStats{{Split: 7}}},
		"clock":         tiers.Progress{Clock: 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			withLink(t, 0, func(l *Link, dial func() *peer) {
				l.cfg.Schema = &ps.Schema{Partitions: 4, Splits: 3}
				p := dial()
				defer p.close()
				go p.hello("i-1", "a", 0)
				wantHello(t, l, "i-1")
				synctest.Wait()
				p.say(report, numbered(1))
				wantDisconnected(t, l, "i-1")
			})
		})
	}
}

// A silent peer holds no stream.
func TestSilentStream(t *testing.T) {
	withLink(t, 0, func(_ *Link, dial func() *peer) {
		p := dial()
		defer p.close()
		if _, err := p.stream.Recv(); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("it ended with %v", err)
		}
	})
}
