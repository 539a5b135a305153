package node

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/checkpoint"
)

// JobNumber returns a job's name as encoded in the data plane's frames.
func JobNumber(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// dataServer is a ps/server in the words of package tiers.
type dataServer struct {
	*server.Server
	self   ps.ServerID
	schema ps.Schema
}

// restore reads partitions from a checkpoint.
func (s dataServer) restore(path string, clock ps.Clock, parts []ps.Partition) ([]*ps.Block, error) {
	if checkpoint.IsManifest(path) {
		return checkpoint.LoadParts(context.Background(), path, &s.schema, clock, parts)
	}
	at, values, err := checkpoint.Load(path, s.schema)
	if err != nil {
		return nil, err
	}
	if at != clock {
		return nil, fmt.Errorf("checkpoint %s is of clock %d, not %d", path, at, clock)
	}
	return checkpoint.Partitions(s.schema, values, parts), nil
}

// NewDataServer returns the real data-plane server.
func NewDataServer(c ServerConfig) (Server, error) {
	if err := c.Schema.Check(); err != nil {
		return nil, err
	}
	return dataServer{self: c.Self, schema: c.Schema, Server: server.New(server.Config{
		Self:        c.Self,
		Schema:      c.Schema,
		Generation:  c.Generation,
		Job:         JobNumber(c.Job),
		Listener:    c.Listener,
		PullsAtOnce: c.PullsAtOnce,
		TLS:         c.TLS,
		Log:         c.Log,
		Panicked:    c.Panicked,
		OnCutHeld: func(cut ps.Clock, bytes int64, took time.Duration) {
			c.OnCutHeld(tiers.CutHeld{Cut: cut, Bytes: bytes, Seconds: took.Seconds()})
		},
	})}, nil
}

func (s dataServer) SetRoute(g ps.Generation, route ps.Route, peers map[ps.ServerID]string) error {
	s.Server.SetRoute(g, route, peers)
	return nil
}

func (s dataServer) Own(do tiers.Own) error {
	if do.Checkpoint != "" {
		rows, err := s.restore(do.Checkpoint, do.Cut, do.Partitions)
		if err != nil {
			return err
		}
		return s.OwnFrom(do.Partitions, do.Cut, rows)
	}
	s.Server.Own(do.Partitions)
	return nil
}

func (s dataServer) BackUp(do tiers.BackUp) error {
	if do.Checkpoint != "" {
		rows, err := s.restore(do.Checkpoint, do.Cut, do.Partitions)
		if err != nil {
			return err
		}
		return s.BackUpFrom(do.Partitions, do.Cut, rows)
	}
	s.Server.BackUp(do.Partitions, do.Empty)
	return nil
}

func (s dataServer) UnnameCut(cut ps.Clock) error {
	s.Server.UnnameCut(cut)
	return nil
}

// SaveCut writes the partitions into an object of this machine.
func (s dataServer) SaveCut(ctx context.Context, do tiers.SaveCut, ready func()) ([]tiers.SavedPart, error) {
	held, err := s.HoldCut(do.Cut, do.Partitions)
	ready()
	if err != nil {
		return nil, err
	}
	sources := make([]checkpoint.Source, len(held))
	for i, h := range held {
		defer h.Release()
		sources[i] = checkpoint.Source{Partition: do.Partitions[i], Rows: h}
	}
	parts, err := checkpoint.SaveParts(ctx, location.Join(do.Place, do.Folder), string(s.self)+".rows", sources)
	if err != nil {
		return nil, err
	}
	out := make([]tiers.SavedPart, len(parts))
	for i, p := range parts {
		out[i] = tiers.SavedPart(p)
	}
	return out, nil
}

func (s dataServer) Recover(do tiers.Recover) error {
	if do.Checkpoint == "" && !do.Initial {
		return s.Server.Recover(do.Generation, do.Cut, do.Route, do.Peers)
	}
	var rows map[ps.Partition]*ps.Block
	if do.Checkpoint != "" {
		var mine []ps.Partition
		for p := range do.Route.Owner {
			if do.Route.Owner[p] == s.self || do.Route.Backup[p] == s.self {
				mine = append(mine, ps.Partition(p))
			}
		}
		blocks, err := s.restore(do.Checkpoint, do.Cut, mine)
		if err != nil {
			return err
		}
		rows = map[ps.Partition]*ps.Block{}
		for i, p := range mine {
			rows[p] = blocks[i]
		}
	}
	return s.RecoverFrom(do.Generation, do.Cut, do.Route, do.Peers, rows)
}

func (s dataServer) MoveOut(ctx context.Context, do tiers.MoveOut) (tiers.Moved, error) {
	took, err := s.Server.MoveOut(ctx, server.Move(do))
	return tiers.Moved(took), err
}

func (s dataServer) TakeStock() tiers.Stock {
	have := s.Server.TakeStock()
	return tiers.Stock{
		Generation: have.Generation, Suspended: have.Suspended, Version: have.Version, Named: have.Named, Owned: have.Owned, Backups: have.Backups,
	}
}

func (s dataServer) FenceWorker(inc ps.Incarnation) ([]tiers.Standing, error) {
	return s.Server.FenceWorker(inc), nil
}

func (s dataServer) FenceGeneration(g ps.Generation) (tiers.Holdings, error) {
	return tiers.Holdings(s.Server.FenceGeneration(g)), nil
}

func (s dataServer) Stats() tiers.Heartbeat {
	f := s.Server.Stats()
	return tiers.Heartbeat{Folded: f.Folded, Owned: f.Owned, CutBytes: f.CutBytes, BytesIn: f.BytesIn, BytesOut: f.BytesOut,
		Serving: f.Serving}
}

// dataClient is a ps/client for one worker.
type dataClient struct {
	*client.Client
	log  *slog.Logger
	rows client.Rows // reused for every Read: a worker reads for one clock at a time
}

// NewDataClient returns the real data-plane client. It calls the machine's own server without a network.
func NewDataClient(c ClientConfig) (Client, error) {
	config := client.Config{Schema: c.Schema, Job: JobNumber(c.Job), TLS: c.TLS, Log: c.Log, Incarnation: c.Incarnation, Panicked: c.Panicked,
		Transport: c.Transport}
	if own, ok := c.Server.(dataServer); ok {
		config.Local = func(id ps.ServerID) wire.Caller {
			if id != c.Self {
				return nil
			}
			return own.Local()
		}
	}
	return &dataClient{Client: client.New(config), log: c.Log}, nil
}

func (d *dataClient) Read(ctx context.Context, g ps.Generation, c ps.Clock, keys []ps.Key, dst []float32, stamps []ps.Stamp) error {
	d.rows.Values = dst[:0:len(dst)] // the rows are decoded into dst
	if err := d.Client.Read(ctx, g, c, keys, &d.rows); err != nil {
		return translated(err)
	}
	if len(d.rows.Values) != len(dst) {
		return fmt.Errorf("read %d values in place of %d", len(d.rows.Values), len(dst))
	}
	copy(stamps, d.rows.Stamps)
	copy(dst, d.rows.Values) // nothing to do if they are the same memory
	return nil
}

func (d *dataClient) Contribute(ctx context.Context, g ps.Generation, inc ps.Incarnation, sequence uint64, c ps.Clock,
	splits []ps.Split, updates []ps.Sums) error {
	sums := make([]client.PartitionSums, len(updates))
	for p := range updates {
		sums[p] = client.PartitionSums{Partition: ps.Partition(p), Sums: updates[p]}
	}
	return translated(d.Client.Contribute(ctx, g, inc, sequence, c, splits, sums))
}

func (d *dataClient) Close() error {
	d.Client.Close()
	in, out := d.Traffic()
	d.log.Info("client ends", "requests", d.Requests(), "bytes_in", in, "bytes_out", out)
	return nil
}

// translated maps the data plane's errors to those that a worker distinguishes.
func translated(err error) error {
	switch {
	case errors.Is(err, client.ErrStale):
		return fmt.Errorf("%w: %w", ErrStale, err)
	case errors.Is(err, client.ErrFenced):
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}
