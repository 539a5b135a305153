package link

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/outbox"
	"github.com/tierml/tierml/tiers/node/wire"
)

var errReplaced = errors.New("the node has opened a new stream")

type control struct {
	pb.UnimplementedControlServer
	link *Link
}

// Attach serves one stream of one machine, from its Hello to its end.
func (s *control) Attach(grpcStream pb.Control_AttachServer) error {
	l := s.link
	first, err := l.hello(grpcStream)
	if err != nil {
		return err
	}
	report, err := l.report(first)
	hello, ok := report.(tiers.Hello)
	if err != nil || !ok || hello.Instance == "" || first.GetProcess() == "" {
		return status.Error(codes.InvalidArgument, "a stream begins with a hello that names the machine and its process")
	}
	err = l.cfg.Accept(hello)
	if err == nil && l.cfg.TLS {
		err = named(grpcStream.Context(), hello.Instance)
	}
	if err != nil {
		l.refused.Warn(l.cfg.Log, "refused a node", "node", hello.Instance, "error", err)
		return status.Error(codes.PermissionDenied, err.Error())
	}

	ctx, cancel := context.WithCancelCause(grpcStream.Context())
	defer cancel(nil)
	node, mine := l.enter(hello.Instance, cancel)
	defer close(mine.ended)
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err() // gone, or replaced, while it waited for its turn
	}
	line := node.begin(first)
	greeting := &pb.ToNode{Controller: l.name, Received: node.commands.Got()}
	if err := grpcStream.Send(greeting); err != nil {
		return err
	}
	if !l.emit(FromNode{ID: hello.Instance, Report: hello}) {
		return status.Error(codes.Unavailable, "the controller stops")
	}
	l.goroutines.Go(func() { cancel(sendAll(ctx, grpcStream, line)) })
	err = l.receiveAll(ctx, grpcStream, hello.Instance, node)
	l.cfg.Log.Info("a node's stream ended", "node", hello.Instance, "why", err)
	l.emit(FromNode{ID: hello.Instance, Disconnected: err})
	return status.Error(codes.Aborted, err.Error())
}

// enter makes a stream its machine's present one: the previous stream is ended, and all its messages have been passed on when enter
// returns.
func (l *Link) enter(id ps.ServerID, cancel context.CancelCauseFunc) (*session, *stream) {
	mine := &stream{cancel: cancel, ended: make(chan struct{})}
	l.mu.Lock()
	node := l.nodes[id]
	if node == nil {
		node = &session{commands: outbox.New[tiers.Command](l.cfg.Backlog)}
		l.nodes[id] = node
	}
	before := node.present
	node.present = mine
	l.mu.Unlock()
	if before != nil {
		before.cancel(errReplaced)
		<-before.ended
	}
	return node, mine
}

// begin resumes the conversation, or restarts it if the machine's process is new: commands for the old one no longer matter.
func (n *session) begin(first *pb.FromNode) *outbox.Line[tiers.Command] {
	if n.process != first.GetProcess() {
		if n.process != "" {
			n.commands.Forget(func(tiers.Command) bool { return false })
		}
		n.process = first.GetProcess()
		return n.commands.Connect(0)
	}
	return n.commands.Connect(first.GetReceived())
}

func sendAll(ctx context.Context, to pb.Control_AttachServer, line *outbox.Line[tiers.Command]) error {
	for {
		letter, err := line.Next(ctx)
		if err != nil {
			return err
		}
		m := &pb.ToNode{}
		if letter.Number != 0 {
			if m, err = wire.EncodeCommand(letter.Message); err != nil {
				return err
			}
		}
		m.Number, m.Received = letter.Number, letter.Got
		if err := to.Send(m); err != nil {
			return err
		}
	}
}

// receiveAll passes on the node's messages, until the stream ends or is replaced; it returns the reason.
func (l *Link) receiveAll(ctx context.Context, from pb.Control_AttachServer, id ps.ServerID, node *session) error {
	messages, failed := make(chan *pb.FromNode), make(chan error, 1)
	l.goroutines.Go(func() { // ends when Attach has returned at the latest: Recv fails then
		for {
			m, err := from.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		select {
		case m := <-messages:
			node.commands.Acknowledged(m.GetReceived())
			if !node.commands.Received(m.GetNumber()) {
				continue
			}
			report, err := l.report(m)
			if err != nil {
				return err
			}
			if !l.emit(FromNode{ID: id, Report: report}) {
				return errors.New("the controller stops")
			}
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return errors.New("the node ended the stream")
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
