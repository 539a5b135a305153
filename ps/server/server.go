// Package server runs the partitions of one process: it owns shards and backups, answers the data plane, pulls cuts for its backups and
// hands partitions over to other servers.
//
// It obeys the controller: which partitions it owns, when a cut is named and when everything returns to one is decided elsewhere. It knows
// nothing about machines, tiers and workers' computations.
package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// Config configures a Server.
type Config struct {
	Self     ps.ServerID
	Schema   ps.Schema
	Job      uint64 // the same in all processes of a job: frames of others are refused
	Listener net.Listener
	Log      *slog.Logger // nil: none
	// Generation is the one in which the server begins, empty: its first route, or Recover, gives it what it serves.
	Generation ps.Generation
	// PullsAtOnce bounds the concurrent deliveries; default 4. There are many owners for one backup: without a bound they would overload
	// it.
	PullsAtOnce int
	// ChunkBytes is the approximate size of a frame of a delivery or of a move; default 1 MiB.
	ChunkBytes int
	// MaxBody is the longest body of a frame, in bytes; default wire.MaxBody. Larger things travel in pieces.
	MaxBody int
	// Dial connects to other servers; default TCP, or a Unix socket if they are on this host.
	Dial wire.Dialer
	// TLS is required of all clients, and used to other servers; nil: none. It contains the certificates of both roles. With it, all
	// connections use TCP.
	TLS *tls.Config
	// OnCutHeld is called, from a goroutine of the server, when every partition that is backed up here holds the cut. Took is the time from
	// the first notification to the last row.
	OnCutHeld func(cut ps.Clock, bytes int64, took time.Duration)
	// Panicked is called for panics in the server's goroutines.
	Panicked wire.Panicked
}

// Server serves the partitions of one process.
//
// It decides what its parts share: the term, and which partitions are owned and backed up. Each part documents its lock. Locks are taken in
// this order: term.mu, then announcer.mu or heldCut.mu, then that of a slot or of a backup, then peers.mu. A slot's lock is never held
// together with a backup's.
type Server struct {
	cfg     Config
	log     *slog.Logger
	traffic wire.Traffic
	sparse  bool // the schema has sparse tables
	cells   int  // of a partition: see cellsOf
	said    loglimit.Limit

	term
	places
	others    peers
	reads     *reads
	backups   *backups
	announcer *announcer

	// These are guarded by term.mu.
	moves     uint64   // number of the last move out
	recovered ps.Clock // the cut that this generation began at

	turns *turns // of moves out
}

// New returns an empty server.
func New(cfg Config) *Server {
	if cfg.PullsAtOnce <= 0 {
		cfg.PullsAtOnce = 4
	}
	if cfg.ChunkBytes <= 0 {
		cfg.ChunkBytes = 1 << 20
	}
	if cfg.MaxBody <= 0 || cfg.MaxBody > wire.MaxBody {
		cfg.MaxBody = wire.MaxBody
	}
	cfg.ChunkBytes = min(cfg.ChunkBytes, cfg.MaxBody/2)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.TLS != nil {
		cfg.Dial = wire.SecureDialer(cfg.Dial, cfg.TLS)
	}
	s := &Server{cfg: cfg, log: cfg.Log, sparse: hasSparse(&cfg.Schema), cells: cellsOf(&cfg.Schema), recovered: -1, turns: newTurns()}
	s.term.init(cfg.Generation, cfg.Panicked)
	s.places.init(&s.cfg.Schema, &s.term)
	s.others.self, s.others.here = cfg.Self, local{s}
	s.others.links = wire.Links{Dial: cfg.Dial, Job: cfg.Job, Traffic: &s.traffic, MaxBody: cfg.MaxBody, Panicked: cfg.Panicked}
	s.reads = newReads(&s.places)
	s.backups = newBackups(&s.cfg, &s.term, &s.others, &s.said)
	s.announcer = &announcer{term: &s.term, places: &s.places, peers: &s.others, log: cfg.Log}
	s.announcer.reset()
	return s
}

// Serve answers the data plane until ctx is done. All goroutines of the server have ended when it returns, and
// it cannot be started again.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.end) // wakes requests that wait
	defer stop()
	answering := wire.Server{
		Job: s.cfg.Job, Handler: s, Log: s.log, Traffic: &s.traffic, TLS: s.cfg.TLS, MaxBody: s.cfg.MaxBody, Panicked: s.cfg.Panicked,
	}
	stopNear := s.serveNear(ctx, &answering)
	err := answering.Serve(ctx, s.cfg.Listener)
	stopNear()
	s.mu.Lock()
	s.end() // no errand begins after this
	s.mu.Unlock()
	s.tasks.Wait()
	s.others.links.Close()
	return err
}

// serveNear answers callers on this host, until stop has returned.
func (s *Server) serveNear(ctx context.Context, answering *wire.Server) (stop func()) {
	if s.cfg.TLS != nil {
		return func() {}
	}
	local, err := wire.ListenLocal(s.cfg.Job, s.cfg.Listener.Addr())
	if err != nil {
		s.log.Debug("callers on this host come by TCP", "error", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		defer s.cfg.Panicked.Report()
		if err := answering.Serve(ctx, local); err != nil {
			s.log.Warn("callers on this host come by TCP from now on", "error", err)
		}
	})
	return func() { cancel(); serving.Wait() }
}

// SetRoute sets which server owns each partition, and the servers' addresses. A route older than the present one is ignored.
func (s *Server) SetRoute(generation ps.Generation, route ps.Route, peers map[ps.ServerID]string) {
	s.mu.Lock()
	if generation < s.generation || s.routed && generation == s.generation && route.Version < s.route.Version {
		s.mu.Unlock()
		return
	}
	if generation > s.generation {
		s.outlive(generation)
	}
	s.setRoute(route, peers)
	s.mu.Unlock()

	addresses := map[string]bool{}
	for _, address := range peers {
		addresses[address] = true
	}
	s.others.links.Keep(addresses)
	s.announcer.notifyBackups()
	s.mu.RLock()
	s.run(s.backups.reportHeld)
	s.mu.RUnlock()
}

// outlive enters a generation that began without this server: nothing that it has belongs to it.
func (s *Server) outlive(generation ps.Generation) {
	if s.routed {
		s.log.Warn("a generation has begun without this server: what it has is dropped", "generation", generation)
		for _, slot := range s.slots {
			slot.clear()
		}
		s.backups.clear()
	}
	s.beginGeneration(generation)
	s.suspended = false
}

func (s *Server) beginGeneration(generation ps.Generation) {
	s.term.begin(generation)
	s.recovered = -1
	s.announcer.reset()
	s.backups.stop()
	for _, slot := range s.slots {
		slot.newest = wire.MoveID{} // versions start again with a restarted run
	}
}

// setRoute adopts a route. mu must be held for writing.
func (s *Server) setRoute(route ps.Route, peers map[ps.ServerID]string) {
	s.route, s.routed = route, true
	s.others.set(peers)
	for p, slot := range s.slots {
		owner := serverAt(route.Owner, p)
		if slot.state == absent && slot.to != "" && owner != s.cfg.Self && owner != "" {
			slot.to, slot.address = owner, peers[owner]
		}
		// The controller names a new owner once the old one has answered that the move ended.
		if a := slot.arrival; slot.state == absent && a != nil && a.shard != nil && owner == s.cfg.Self && route.Version > a.move.Version {
			s.ownArrived(slot)
		}
	}
	s.backups.retire(route)
}

// Own puts partitions at their initial state into service.
func (s *Server) Own(partitions []ps.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		if slot := s.slots[p]; slot.state == absent {
			s.own(slot, ps.NewShard(s.schema, p))
		}
	}
}

// OwnFrom puts partitions into service as of a checkpoint at a clock. Rows are indexed like partitions.
func (s *Server) OwnFrom(partitions []ps.Partition, clock ps.Clock, rows []*ps.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range partitions {
		slot := s.slots[p]
		if slot.state != absent {
			continue
		}
		shard, err := ps.RestoreShard(s.schema, p, clock, rows[i])
		if err != nil {
			return fmt.Errorf("restore partition %d: %w", p, err)
		}
		s.own(slot, shard)
	}
	return nil
}

// BackUp adds partitions that are backed up here. Empty: they have history, so that a full delivery is needed first; otherwise they are at
// their initial state. The next route that names another backup takes them away, once a cut is committed: until then only this one holds
// the previous cut.
func (s *Server) BackUp(partitions []ps.Partition, empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backups.add(partitions, empty)
}

// BackUpFrom adds partitions that are backed up here, as of a checkpoint at a clock. Rows are indexed like partitions.
func (s *Server) BackUpFrom(partitions []ps.Partition, clock ps.Clock, rows []*ps.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backups.addFrom(partitions, clock, rows)
}

// Stats are a server's figures.
type Stats struct {
	Folded     ps.Clock // lowest complete clock of the owned partitions; 0 if there are none
	Owned      int
	CutBytes   int64 // what a cut would have to deliver now
	BytesIn    int64 // data plane, since start
	BytesOut   int64
	Generation ps.Generation
	Serving    []ps.Serving // of the owned partitions, in order
}

// Stats returns the server's figures.
func (s *Server) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := Stats{Generation: s.generation, BytesIn: s.traffic.In.Load(), BytesOut: s.traffic.Out.Load()}
	for _, slot := range s.slots {
		slot.mu.Lock()
		if slot.state != absent {
			if folded := slot.shard.Folded(); out.Owned == 0 || folded < out.Folded {
				out.Folded = folded
			}
			out.Owned++
			out.CutBytes += int64(slot.shard.CutBytes())
			out.Serving = append(out.Serving, slot.serving)
		}
		slot.mu.Unlock()
	}
	return out
}
