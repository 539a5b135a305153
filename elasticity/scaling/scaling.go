// Package scaling serves the four calls of the elastic parameter server to people and schedulers, and also makes them:
// add and remove workers, servers and reliable machines of a run, and end it. It carries requests to the controller's
// driver and returns answers; it decides nothing.
//
// A run leaves the address and a token in its directory (File), readable for its owner only: any process that can read the directory may
// scale the run and end it.
package scaling

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tierml/tierml/elasticity"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/sameuser"
)

// File tells clients in a run's directory how to reach it.
const File = "control.json"

// door is File's content.
type door struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// Driver passes requests to the controller. Told is called with each answer, the first one before Scale returns, which
// returns a refusal as its error.
type Driver interface {
	Scale(ctx context.Context, want elasticity.ScaleWanted, wait bool, told func(elasticity.Scale, bool) error) error
	// Stop requests a graceful end or, with now, an immediate end.
	Stop(ctx context.Context, why string, now bool)
}

// Server serves one run until it is closed.
type Server struct {
	grpc   *grpc.Server
	file   string
	served sync.WaitGroup
}

// Serve listens on the loopback interface and writes the run's File. Close must be called.
func Serve(directory string, driver Driver, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for requests to scale: %w", err)
	}
	d := door{Address: listener.Addr().String(), Token: rand.Text()}
	s := &Server{file: filepath.Join(directory, File)}
	if err := d.write(s.file); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.grpc = grpc.NewServer(grpc.StreamInterceptor(d.check), grpc.UnaryInterceptor(d.checkOne), grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxConcurrentStreams(callsAtOnce), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime}))
	pb.RegisterElasticServer(s.grpc, &service{driver: driver})
	s.served.Go(func() {
		if err := s.grpc.Serve(sameuser.Listener(listener, log)); err != nil {
			log.Error("requests to scale can no longer be served", "err", err)
		}
	})
	return s, nil
}

// write replaces the file atomically.
func (d door) write(path string) error {
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing the run's address: %w", err)
	}
	if err := atomicfile.Write(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the run's address: %w", err)
	}
	return nil
}

// Close ends all calls and removes the File.
func (s *Server) Close() {
	s.grpc.Stop()
	s.served.Wait()
	_ = os.Remove(s.file) // harmless if it stays: the next reader gets no answer
}

// Limits on connections.
const (
	handshakeTime = 10 * time.Second
	idleTime      = time.Minute
	callsAtOnce   = 100
)

const tokenKey = "authorization"

// check admits callers with the token.
func (d door) check(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := d.admit(stream.Context()); err != nil {
		return err
	}
	return next(server, stream)
}

func (d door) checkOne(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := d.admit(ctx); err != nil {
		return nil, err
	}
	return next(ctx, request)
}

func (d door) admit(ctx context.Context) error {
	given := metadata.ValueFromIncomingContext(ctx, tokenKey)
	if len(given) != 1 || subtle.ConstantTimeCompare([]byte(given[0]), []byte("Bearer "+d.Token)) != 1 {
		return status.Error(codes.PermissionDenied, "the token is not this run's; it is in "+File+" in the run's directory")
	}
	return nil
}

type service struct {
	pb.UnimplementedElasticServer
	driver Driver
}

type stream = grpc.ServerStreamingServer[pb.Standing]

func (s *service) AddWorkers(m *pb.Machines, to stream) error {
	return s.change(&pb.Change{Workers: count(m), Wait: m.Wait, By: m.By}, to)
}

func (s *service) RemoveWorkers(m *pb.Machines, to stream) error {
	return s.change(&pb.Change{Workers: -count(m), Wait: m.Wait, By: m.By}, to)
}

func (s *service) AddServers(m *pb.Machines, to stream) error {
	return s.change(&pb.Change{Servers: count(m), Wait: m.Wait, By: m.By}, to)
}

func (s *service) RemoveServers(m *pb.Machines, to stream) error {
	return s.change(&pb.Change{Servers: -count(m), Wait: m.Wait, By: m.By}, to)
}

func (s *service) AddReliable(m *pb.Machines, to stream) error {
	return s.change(&pb.Change{Reliable: count(m), Wait: m.Wait, By: m.By}, to)
}

func (s *service) RemoveReliable(m *pb.Machines, to stream) error {
	return s.change(&pb.Change{Reliable: -count(m), Wait: m.Wait, By: m.By}, to)
}

func (s *service) Scale(c *pb.Change, to stream) error { return s.change(c, to) }

func (s *service) Pause(w *pb.Wish, to stream) error {
	return s.change(&pb.Change{Pause: true, Wait: w.Wait, By: w.By}, to)
}

func (s *service) Resume(w *pb.Wish, to stream) error {
	return s.change(&pb.Change{Resume: true, Wait: w.Wait, By: w.By}, to)
}

func (s *service) Stop(ctx context.Context, e *pb.End) (*pb.Heard, error) {
	by := cmp.Or(e.By, "a user asked")
	if e.Program != "" {
		if err := s.driver.Scale(ctx, elasticity.ScaleWanted{Cancel: e.Program, By: by}, false, func(elasticity.Scale, bool) error { return nil }); err != nil {
			return nil, refused(ctx, err)
		}
		return &pb.Heard{}, nil
	}
	s.driver.Stop(ctx, by, e.Now)
	return &pb.Heard{}, ctx.Err()
}

// most exceeds any market's supply: a larger number is a mistake.
const most = 1_000_000

// count converts a number of machines, keeping invalid numbers invalid.
func count(m *pb.Machines) int32 { return int32(min(m.Count, most+1)) }

func (s *service) change(c *pb.Change, to stream) error {
	for _, n := range []int32{c.Workers, c.Servers, c.Reliable} {
		if n > most || n < -most {
			return status.Errorf(codes.InvalidArgument, "%d machines are out of range", n)
		}
	}
	want := elasticity.ScaleWanted{Workers: int(c.Workers), Servers: int(c.Servers), Reliable: int(c.Reliable), Reset: c.Restore, Pause: c.Pause, Resume: c.Resume, MoveAll: c.MoveAll, Scheduled: c.Scheduled, By: c.By}
	err := s.driver.Scale(to.Context(), want, c.Wait, func(now elasticity.Scale, reached bool) error {
		return to.Send(&pb.Standing{
			Reached: reached, Workers: uint32(now.Workers), Servers: uint32(now.Servers),
			WantedMachines: uint32(now.Want.Machines), WantedVcpus: uint32(now.Want.VCPU), WantedServers: uint32(now.WantServers),
			Reliable: uint32(now.Reliable), WantedReliable: uint32(now.WantReliable), Paused: now.Paused,
		})
	})
	return refused(to.Context(), err)
}

// refused returns the status of a request that the driver refuses, unless the caller has gone.
func refused(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}
