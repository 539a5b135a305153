package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
)

// Config configures a node. Fields are required unless noted.
type Config struct {
	Machine   Machine
	NewServer func(ServerConfig) (Server, error) // NewDataServer, except in tests
	NewClient func(ClientConfig) (Client, error) // NewDataClient, except in tests
	// NewApp creates the application that a Welcome names.
	NewApp func(name string, params map[string]string, dataset []byte) (apps.App, error)
	// OpenSplit opens a split's file below Welcome.SplitsURL.
	OpenSplit func(url string, split ps.Split) (io.ReadCloser, error)
	// Flops is the rate to which the worker is limited, in floating-point operations per second; 0 = unlimited.
	Flops float64
	// Threads is the number of threads that the worker computes on; 0 = one for each core that the process may use.
	Threads int
	// KeyFile keeps the machine's private key for the next process of the same machine; empty = memory only.
	KeyFile string
	// UseKeys makes this process open the run's store with the run's credentials, if the controller provides some; nil = it uses its own.
	UseKeys func(func() (blob.Keys, error))
	// Plaintext allows a data plane without TLS that other hosts can reach: for measurements in an isolated network.
	Plaintext bool
	// PutOff postpones the time at which the machine powers itself off. It is called every minute while a controller is attached; nil =
	// there is no such time.
	PutOff func(context.Context) error
	// Use reports what the machine uses until ctx is done: on a machine of its own, everything that runs there, else this process and its
	// descendants. nil = not measured.
	Use func(ctx context.Context, whole bool, report func(tiers.Used))
	// NewPrograms creates what runs users' programs, for jobs with such programs: NewPrograms, except in tests.
	NewPrograms func(program.Config) (Programs, error)
	// Wall converts a market time to wall-clock time; nil = they are the same.
	Wall func(market time.Time) time.Time
	// Dial connects to the controller; nil = TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	Log  *slog.Logger
}

func (c Config) check() error {
	if c.Machine == nil || c.NewServer == nil || c.NewClient == nil || c.NewApp == nil || c.OpenSplit == nil || c.Log == nil {
		return errors.New("node: Machine, NewServer, NewClient, NewApp, OpenSplit and Log must be set")
	}
	if !(c.Flops >= 0) {
		return errors.New("node: Flops must not be negative")
	}
	if c.Threads < 0 {
		return errors.New("node: Threads must not be negative")
	}
	return nil
}

func (c Config) threads() int { return cmp.Or(c.Threads, runtime.GOMAXPROCS(0)) }

// Machine is the machine's metadata service (providers/ec2/notice on EC2).
type Machine interface {
	Identity(ctx context.Context) (Identity, error)
	UserData(ctx context.Context) (string, error)
	// Watch calls f for each warning until ctx is done. A warning may come more than once.
	Watch(ctx context.Context, f func(tiers.Warned)) error
}

// Identity is the machine's id and type.
type Identity struct {
	Instance ps.ServerID
	Type     string
}

// Errors of the data plane that a worker distinguishes.
var (
	// ErrStale: the generation has ended. The worker waits for a Recover.
	ErrStale = errors.New("generation is over")
	// ErrFenced: the controller gave this process up. It must end; a new one may join empty.
	ErrFenced = errors.New("this process was given up by the controller and must rejoin empty")
)

// ServerConfig configures a data-plane server.
type ServerConfig struct {
	Self   ps.ServerID
	Job    string
	Schema ps.Schema
	// Generation is the generation in which the machine was welcomed. A controller that takes the run over may query it
	// before there is a route.
	Generation ps.Generation
	Listener   net.Listener
	TLS        *tls.Config // for connections in both directions; nil = plaintext
	// PullsAtOnce bounds the concurrent deliveries of cuts; 0 = the server's default.
	PullsAtOnce int
	// OnCutHeld is called when the backups of this machine all hold a cut.
	OnCutHeld func(tiers.CutHeld)
	// Panicked is called for panics in the server's goroutines, before they end the process.
	Panicked func(value any, stack []byte)
	Log      *slog.Logger
}

// Server is the data-plane server of this machine: owner of some partitions, backup of others (ps/server). Changes are complete when a
// method returns, unless it takes a context.
type Server interface {
	// Serve serves until ctx is done.
	Serve(ctx context.Context) error
	agent.Server
	// SaveCut writes this machine's backups to a blob store. It always calls held, once later cuts may be committed.
	SaveCut(ctx context.Context, do tiers.SaveCut, held func()) ([]tiers.SavedPart, error)
	MoveOut(ctx context.Context, do tiers.MoveOut) (tiers.Moved, error)
	FenceWorker(inc ps.Incarnation) ([]tiers.Standing, error)
	// TakeStock returns the partitions owned and backed up here; the caller adds the worker's part.
	TakeStock() tiers.Stock
	// Stats returns a Heartbeat's figures; the caller adds the generation and the client's bytes.
	Stats() tiers.Heartbeat
}

// ClientConfig configures a data-plane client.
type ClientConfig struct {
	Self   ps.ServerID
	Job    string
	Schema ps.Schema
	Server Server // of the same process
	TLS    *tls.Config
	// Incarnation is the worker's; 0: only reads.
	Incarnation ps.Incarnation
	Transport   ps.Transport                  // of contributions
	Panicked    func(value any, stack []byte) // like a server's
	Log         *slog.Logger
}

// Client reads from and contributes to all servers (ps/client). It finds the present owner of a partition by itself, and retries until ctx
// is done.
type Client interface {
	SetRoute(g ps.Generation, route ps.Route, peers map[ps.ServerID]string)
	// Read copies rows, as visible to a clock's work, into dst, one after another. It waits for the clocks that it needs. Stamps, unless
	// nil, has room for a stamp per partition.
	Read(ctx context.Context, g ps.Generation, c ps.Clock, keys []ps.Key, dst []float32, stamps []ps.Stamp) error
	// Contribute returns when the contribution counts in every partition, those without updates too.
	// updates has one entry per partition, by number.
	Contribute(ctx context.Context, g ps.Generation, inc ps.Incarnation, sequence uint64, c ps.Clock,
		splits []ps.Split, updates []ps.Sums) error
	// Traffic returns the bytes received and sent over the network since the start.
	Traffic() (in, out int64)
	Close() error
}
