// Package link is the controller's end of the control plane: a server that machines attach to. It passes reports to the controller and
// accepts its commands, as Go values. It decides nothing: which machine may attach, and what a broken stream means, is up to the caller.
//
// A machine's process has one conversation with one Link, which outlives broken streams: each report and each command arrives once and in
// order. Heartbeats are sent only while there is a stream.
package link

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tierml/tierml/internal/loglimit"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/outbox"
	"github.com/tierml/tierml/tiers/node/wire"
)

const (
	// A dead stream is detected after at most pingAfter + pingTimeout (wall clock).
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// Nodes ping every 10 s, the minimum that grpc-go allows a client; a server must allow more frequent pings, or it ends the connection
	// with "too many pings".
	leastPing = 5 * time.Second
	// Marks of all splits in all partitions are the largest message.
	largestMessage = 64 << 20

	defaultBacklog = 4096

	// mostConnections bounds the connections: more than a run has machines. Others are closed.
	mostConnections = 2048
	// streamsEach bounds the streams of a connection: machines have one, and for a moment also the previous one.
	streamsEach = 4
	// patience bounds the time for setting up a connection, and from a stream's start to its Hello.
	patience = 10 * time.Second
	// idle is how long a connection may be without a stream.
	idle = time.Minute
)

var (
	// ErrUnknownNode: the machine has never attached.
	ErrUnknownNode = errors.New("no such node has attached")
	// ErrBacklog: the machine has not received its commands for long; treat it as gone.
	ErrBacklog = errors.New("too many commands wait for the node")
)

// Config says where to listen and whom to accept.
type Config struct {
	Listener net.Listener
	// TLS: the listener returns *tls.Conn connections whose other end has presented a certificate with the machine's name. Without it, the
	// listener must be unreachable from other hosts.
	TLS bool
	// Plaintext allows a listener without TLS that other hosts can reach: for measurements in an isolated network.
	Plaintext bool
	// Accept checks a machine's Hello, above all its token. An error refuses it permanently: the node ends.
	Accept func(tiers.Hello) error
	// Schema bounds the numbers in machines' reports; nil: only their types do.
	Schema *ps.Schema
	Log    *slog.Logger
	// Backlog bounds the commands waiting for one node; 0 = 4096.
	Backlog int
}

// FromNode is a node's report, or the end of its stream. A node's first report is a tiers.Hello; after Disconnected the next is a Hello
// again.
type FromNode struct {
	ID           ps.ServerID
	Report       tiers.Report // nil: the stream broke
	Disconnected error        // why; nil otherwise
}

// Link serves nodes until it is closed.
type Link struct {
	cfg        Config
	name       string // of this controller process
	server     *grpc.Server
	reports    chan FromNode
	closing    chan struct{}
	closeOnce  sync.Once
	goroutines sync.WaitGroup
	refused    loglimit.Limit

	mu    sync.Mutex
	nodes map[ps.ServerID]*session
}

// Listen starts to accept nodes. It ends with ctx or with Close, whichever is first; Close must be called in any case.
func Listen(ctx context.Context, cfg Config) (*Link, error) {
	if cfg.Listener == nil || cfg.Accept == nil || cfg.Log == nil {
		return nil, errors.New("link: Listener, Accept and Log must be set")
	}
	options := []grpc.ServerOption{grpc.Creds(verifiedTLS{insecure.NewCredentials()})}
	if !cfg.TLS {
		options = nil
	}
	if !cfg.TLS && !cfg.Plaintext {
		var err error
		if cfg.Listener, err = trust.Plain(cfg.Listener, cfg.Log); err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
	}
	if cfg.Backlog == 0 {
		cfg.Backlog = defaultBacklog
	}
	l := &Link{
		cfg:     cfg,
		name:    rand.Text(),
		reports: make(chan FromNode),
		closing: make(chan struct{}),
		nodes:   map[ps.ServerID]*session{},
		server: grpc.NewServer(append(options,
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: idle}),
			grpc.ConnectionTimeout(patience),
			grpc.MaxConcurrentStreams(streamsEach),
			grpc.StreamInterceptor(caught(cfg.Log)),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
			grpc.MaxRecvMsgSize(largestMessage),
			grpc.WaitForHandlers(true),
		)...),
	}
	pb.RegisterControlServer(l.server, &control{link: l})
	l.goroutines.Go(func() {
		listener := cfg.Listener
		if !cfg.TLS { // with TLS every client has presented a certificate of the run
			listener = &limitedListener{Listener: listener, log: cfg.Log}
		}
		if err := l.server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			cfg.Log.Error("the control plane stopped listening", "error", err)
		}
	})
	l.goroutines.Go(func() {
		select {
		case <-ctx.Done():
			l.stop()
		case <-l.closing:
		}
	})
	return l, nil
}

// Reports returns the nodes' reports. Nodes wait while there is no reader. The channel is closed by Close.
func (l *Link) Reports() <-chan FromNode { return l.reports }

// Receive passes on reports until ctx is done or the link is closed.
func (l *Link) Receive(ctx context.Context, f func(ps.ServerID, tiers.Report, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r, ok := <-l.reports:
			if !ok {
				return errors.New("listening to nodes: the link is closed")
			}
			f(r.ID, r.Report, r.Disconnected)
		}
	}
}

// Send sends a command to a node, after earlier ones. It does not wait for the node: the command is delivered when the node has a stream,
// even after a break.
func (l *Link) Send(id ps.ServerID, c tiers.Command) error {
	if _, err := wire.EncodeCommand(c); err != nil {
		return err
	}
	l.mu.Lock()
	node := l.nodes[id]
	l.mu.Unlock()
	if node == nil {
		return fmt.Errorf("sending %T to %s: %w", c.Do, id, ErrUnknownNode)
	}
	if !node.commands.Put(c) {
		return fmt.Errorf("sending %T to %s: %w", c.Do, id, ErrBacklog)
	}
	return nil
}

// Close ends all streams and waits for everything that it started.
func (l *Link) Close() error {
	l.stop()
	l.goroutines.Wait()
	l.closeOnce.Do(func() { close(l.reports) })
	return nil
}

func (l *Link) stop() {
	l.mu.Lock()
	select {
	case <-l.closing:
	default:
		close(l.closing)
	}
	l.mu.Unlock()
	l.server.Stop()
}

// emit passes something to the caller; false when the link is closing.
func (l *Link) emit(r FromNode) bool {
	select {
	case l.reports <- r:
		return true
	case <-l.closing:
		return false
	}
}

// session is the state between this link and one machine, over all its streams.
type session struct {
	commands *outbox.Queue[tiers.Command]

	// Guarded by Link.mu.
	present *stream

	// Owned by the present stream, which has waited for the previous one.
	process string
}

// stream is one connection of one machine.
type stream struct {
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when nothing more arrives on it
}
