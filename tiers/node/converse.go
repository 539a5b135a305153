package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/outbox"
	"github.com/tierml/tierml/tiers/node/wire"
)

const (
	// pingAfter is the minimum that grpc-go allows; the controller's end must allow it too (link.leastPing).
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second

	firstRetry = 50 * time.Millisecond
	lastRetry  = 1 * time.Second

	largestMessage = 64 << 20
)

// converse talks to the controller: attach, obey until the stream breaks, attach again. Reports that the controller has not acknowledged
// are sent again on the next stream.
func (n *node) converse(ctx context.Context) error {
	conn, err := n.dial()
	if err != nil {
		return fmt.Errorf("preparing the connection to the controller at %s: %w", n.user.Controller, err)
	}
	defer func() { _ = conn.Close() }()
	control := pb.NewControlClient(conn)
	for ctx.Err() == nil {
		stream, line, err := n.attach(ctx, control)
		if err != nil {
			return err
		}
		n.attached.Store(true)
		err = n.talk(ctx, stream, line)
		n.attached.Store(false)
		if ctx.Err() != nil {
			return nil
		}
		n.log.Warn("the controller's stream broke; working on", "error", err, "stop_after", n.orphanAfter())
	}
	return nil
}

func (n *node) dial() (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(n.controlCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 2, MaxDelay: lastRetry},
			MinConnectTimeout: lastRetry,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestMessage)),
	}
	switch {
	case n.cfg.Dial != nil:
		options = append(options, grpc.WithContextDialer(n.cfg.Dial))
	case n.own == nil: // on this host; the controller may have ended and another process may use its port
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return sameuser.Dial(ctx, "tcp", address)
		}))
	}
	return grpc.NewClient("passthrough:///"+n.user.Controller, options...)
}

// stream is one connection to the controller.
type stream struct {
	pb.Control_AttachClient
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// attach retries until the controller has greeted. It gives up after a while as an orphan, or when refused.
func (n *node) attach(ctx context.Context, control pb.ControlClient) (*stream, *outbox.Line[tiers.Report], error) {
	patience, cancel := clock.WithPatience(ctx, n.orphanAfter(), errOrphan)
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		s, greeting, err := n.open(ctx, patience, control)
		if err == nil {
			return s, n.take(greeting), nil
		}
		if status.Code(err) == codes.PermissionDenied {
			return nil, nil, fmt.Errorf("the controller refuses this machine: %s", status.Convert(err).Message())
		}
		n.log.Debug("no controller yet", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-patience.Done():
		}
		timer.Stop()
		if patience.Err() != nil {
			return nil, nil, context.Cause(patience)
		}
	}
}

// open sends a hello on a new stream and waits for the greeting, up to patience. The stream lives until ctx is done.
func (n *node) open(ctx, patience context.Context, control pb.ControlClient) (_ *stream, greeting *pb.ToNode, err error) {
	s := &stream{}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer context.AfterFunc(patience, func() { s.cancel(context.Cause(patience)) })()
	defer func() {
		if err != nil {
			s.cancel(err)
		}
	}()
	hello, err := wire.EncodeReport(n.hello())
	if err != nil {
		return nil, nil, err
	}
	hello.Process, hello.Received = n.process, n.reports.Got()
	if s.Control_AttachClient, err = control.Attach(s.ctx); err != nil {
		return nil, nil, err
	}
	// When Send fails, Recv has the reason.
	_ = s.Send(hello)
	greeting, err = s.Recv()
	if err == nil && greeting.GetController() == "" {
		err = errors.New("the controller did not greet")
	}
	return s, greeting, err
}

// take makes a greeting's controller the current one. A new controller does not know earlier events: answers to another's commands would
// only confuse it.
func (n *node) take(greeting *pb.ToNode) *outbox.Line[tiers.Report] {
	if n.controller == greeting.GetController() {
		n.log.Info("attached to the controller again")
		return n.reports.Connect(greeting.GetReceived())
	}
	n.log.Info("attached to the controller")
	if n.controller != "" {
		n.reports.Forget(func(r tiers.Report) bool {
			_, isAnswer := r.(tiers.Answer)
			return !isAnswer
		})
		clear(n.obeyed)
		if w := n.warned.Load(); w != nil {
			n.report(*w)
		}
		n.againPrograms()
	}
	n.controller = greeting.GetController()
	return n.reports.Connect(0)
}

// talk obeys and reports until the stream breaks; it returns the reason.
func (n *node) talk(ctx context.Context, s *stream, line *outbox.Line[tiers.Report]) error {
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		s.cancel(sendAll(s.ctx, s, line))
	}()
	err := n.obeyAll(ctx, s)
	s.cancel(err)
	<-sending
	return err
}

func sendAll(ctx context.Context, to *stream, line *outbox.Line[tiers.Report]) error {
	for {
		letter, err := line.Next(ctx)
		if err != nil {
			return err
		}
		m := &pb.FromNode{}
		if letter.Number != 0 {
			if m, err = wire.EncodeReport(letter.Message); err != nil {
				return err
			}
		}
		m.Number, m.Received = letter.Number, letter.Got
		if err := to.Send(m); err != nil {
			return err
		}
	}
}

func (n *node) obeyAll(ctx context.Context, from *stream) error {
	for {
		m, err := from.Recv()
		if err != nil {
			return err
		}
		n.reports.Acknowledged(m.GetReceived())
		if !n.reports.Received(m.GetNumber()) {
			continue
		}
		c, err := wire.DecodeCommand(m)
		if err != nil {
			n.report(tiers.Answer{ID: m.GetId(), Code: tiers.CodeFailed, Error: err.Error()})
			continue
		}
		if _, again := n.obeyed[c.ID]; again {
			continue // its answer was sent already or is pending
		}
		n.obeyed[c.ID] = struct{}{}
		if err := guard(func() error { n.obey(ctx, c); return nil }); err != nil {
			n.task(ctx, func() error { return err })
		}
	}
}
