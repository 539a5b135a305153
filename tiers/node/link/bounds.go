package link

import (
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tierml/tierml/internal/loglimit"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/wire"
)

// limitedListener refuses connections beyond mostConnections.
type limitedListener struct {
	net.Listener
	log   *slog.Logger
	said  loglimit.Limit
	count atomic.Int64
}

func (b *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.count.Add(1) <= mostConnections {
			return &limitedConn{Conn: conn, left: sync.OnceFunc(func() { b.count.Add(-1) })}, nil
		}
		b.count.Add(-1)
		_ = conn.Close()
		b.said.Warn(b.log, "closed a connection: there are too many", "from", conn.RemoteAddr())
	}
}

// limitedConn counts towards the limit until it is closed.
type limitedConn struct {
	net.Conn
	left func()
}

func (c *limitedConn) Close() error {
	c.left()
	return c.Conn.Close()
}

// caught prevents a panic about one machine's message from ending the controller.
func caught(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("a machine's stream failed", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = status.Error(codes.Internal, "the controller failed over this stream; its log has more")
			}
		}()
		return handler(srv, stream)
	}
}

// hello waits for a stream's first message.
func (l *Link) hello(stream pb.Control_AttachServer) (*pb.FromNode, error) {
	type received struct {
		m   *pb.FromNode
		err error
	}
	first := make(chan received, 1)
	l.goroutines.Go(func() { // ends when Attach has returned at the latest
		m, err := stream.Recv()
		first <- received{m, err}
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-first:
		return r.m, r.err
	case <-timer.C:
		return nil, status.Error(codes.DeadlineExceeded, "a stream begins with a hello")
	}
}

// report decodes a machine's report and checks that its numbers are within bounds.
func (l *Link) report(m *pb.FromNode) (tiers.Report, error) {
	r, err := wire.DecodeReport(m)
	if err != nil {
		return nil, err
	}
	if err := tiers.CheckReport(l.cfg.Schema, r); err != nil {
		return nil, fmt.Errorf("a report of type %T that cannot be: %w", r, err)
	}
	return r, nil
}
