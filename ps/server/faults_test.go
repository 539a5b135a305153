package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

// frail makes connections that break after some bytes in either direction, in the middle of frames.
type frail struct {
	mu     sync.Mutex
	random *rand.Rand
	least  int
	broken int
}

func (f *frail) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := wire.DialTCP(ctx, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &frailConn{Conn: conn, dialer: f, left: f.least + f.random.IntN(4*f.least)}, nil
}

type frailConn struct {
	net.Conn
	dialer *frail
	mu     sync.Mutex
	left   int
}

var errBroken = errors.New("the cable was cut")

// allow returns how many of n bytes may still pass.
func (c *frailConn) allow(n int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return 0, errBroken
	}
	n = min(n, c.left)
	c.left -= n
	if c.left == 0 {
		c.dialer.mu.Lock()
		c.dialer.broken++
		c.dialer.mu.Unlock()
		_ = c.Conn.SetDeadline(time.Now()) // ends a waiting read
	}
	return n, nil
}

func (c *frailConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		return n, err
	}
	n, err = c.allow(n)
	if err != nil {
		_ = c.Conn.Close()
	}
	return n, err
}

func (c *frailConn) Write(b []byte) (int, error) {
	n, err := c.allow(len(b))
	if err == nil {
		_ = c.Conn.SetWriteDeadline(time.Time{})
		n, err = c.Conn.Write(b[:n])
	}
	if err == nil && n < len(b) {
		err = errBroken
	}
	if err != nil {
		_ = c.Conn.Close()
	}
	return n, err
}

func TestConnectionsBreak(t *testing.T) {
	modes(t, func(t *testing.T, schema ps.Schema) {
		dialer := &frail{random: rand.New(rand.NewPCG(3, 4)), least: 4000}
		c := newCluster(t, schema, dialer.dial, "a", "b", "r")
		team := c.team()
		team.start(c.ctx, 1, 6)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		c.cut(6)
		team.start(c.ctx, 7, 10)
		for range 10 {
			if err := c.moveAround(3); err != nil {
				t.Log("a move gave up:", err) // it may, but nothing may be lost
			}
		}
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
		team.verify(10)
		if dialer.broken < 5 {
			t.Errorf("only %d connections broke", dialer.broken)
		}
	})
}

// If the new owner is lost, the old one stays as it was.
func TestMoveToLostServer(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	lost, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := lost.Addr().String()
	_ = lost.Close()
	team.start(c.ctx, 1, 3)
	c.peers["gone"] = address
	for _, way := range ways {
		if err := c.move(c.ctx, 2, "a", "gone", way); err == nil {
			t.Errorf("%+v: moved a partition to nowhere", way)
		}
	}
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(3)
	delete(c.peers, "gone")
	c.cut(3) // nothing of the move is left over
}

// The acknowledgement of the last message gets lost, and the old owner continues: the copy has no owner, and must not interfere with cuts
// or with the next move, which need not come from the same server.
func TestMoveCutOffAtTheEnd(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 2)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	gate := &deafTo{Caller: c.nodes["r"].Local()}
	real := c.peers["r"]
	c.peers["r"] = listen(t, gate)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	moved := make(chan error, 1)
	go func() { moved <- c.move(ctx, 1, "a", "r", server.Move{}) }()
	await(t, gate.final.Load) // the last message has arrived; its acknowledgement does not
	cancel()
	if err := <-moved; err == nil {
		t.Fatal("a move ended well without an acknowledgement")
	}
	c.peers["r"] = real
	if stock := c.nodes["r"].TakeStock(); len(stock.Owned) != 0 || c.nodes["r"].Stats().Owned != 0 {
		t.Fatalf("the receiver says that it owns %+v", stock.Owned)
	}
	status, err := wire.Ask[*wire.Rows](c.ctx, c.nodes["r"].Local(), 1, &wire.Read{Clock: 1, Groups: []wire.KeyGroup{{Partition: 1}}})
	if err != nil || len(status.Groups) != 1 || status.Groups[0].Code != wire.Retry {
		t.Errorf("the receiver answers %+v, %v", status, err)
	}
	team.start(c.ctx, 3, 4)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	c.cut(4)
	if err := c.move(c.ctx, 1, "a", "r", server.Move{}); err != nil {
		t.Fatal(err)
	}
	team.start(c.ctx, 5, 6)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(6)
}

// deafTo forwards requests, and drops the answers to the last message of moves and to later ones.
type deafTo struct {
	wire.Caller
	final atomic.Bool // it has arrived
}

func (d *deafTo) Handle(ctx context.Context, generation ps.Generation, request wire.Message) wire.Message {
	if _, ok := request.(*wire.MoveCancel); ok {
		<-ctx.Done()
		return &wire.Ack{}
	}
	answer, err := d.Call(ctx, generation, request)
	if _, ok := request.(*wire.MoveFinal); ok {
		d.final.Store(true)
		<-ctx.Done()
	}
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return answer
}

func (d *deafTo) HandleNow(ps.Generation, wire.Message) wire.Message { return nil }

// listen runs a handler on an address until the test ends.
func listen(t *testing.T, h wire.Handler) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s := wire.Server{Job: job, Handler: h, Log: discard, Traffic: new(wire.Traffic)}
	done.Go(func() { _ = s.Serve(ctx, listener) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return listener.Addr().String()
}

// frame makes a header as ps/wire/README.md defines it, independently of the package.
func frame(kind byte, job, generation uint64, body []byte, claimed uint32) []byte {
	b := append([]byte("TML\x04"), kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = binary.LittleEndian.AppendUint64(b, job)
	b = binary.LittleEndian.AppendUint64(b, generation)
	b = binary.LittleEndian.AppendUint32(b, claimed)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, body...)
}

func TestGarbageOnThePort(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	team := c.team()
	team.start(c.ctx, 1, 30)
	noise := make([]byte, 5000)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise)
	read := append(make([]byte, 8), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0) // claims 2^32-1 groups
	for name, bytes := range map[string][]byte{
		"noise":          noise,
		"old version":    append([]byte("TML\x03"), frame(3, job, 1, nil, 0)[4:]...),
		"damaged header": append([]byte("TML\x04\x04"), frame(3, job, 1, nil, 0)[5:]...),
		"another job":    frame(3, job+1, 1, nil, 0),
		"too long":       frame(5, job, 1, nil, wire.MaxBody+1),
		"unknown type":   frame(99, job, 1, nil, 0),
		"empty body":     frame(3, job, 1, nil, 0),
		"huge count":     frame(3, job, 1, read, uint32(len(read))),
		"cut short":      frame(5, job, 1, make([]byte, 100), wire.MaxBody)[:120],
	} {
		t.Run(name, func(t *testing.T) { refusedConnection(t, c.peers["a"], bytes) })
	}
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	team.verify(30)
}

// refusedConnection sends bytes and expects an error answer, or the end of the connection.
func refusedConnection(t *testing.T, address string, sent []byte) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) > 0 && (!bytes.HasPrefix(answer, []byte("TML\x04\x01\x01")) || len(answer) < 56) {
		t.Errorf("answered with %x", answer)
	}
	if len(sent) != 120 && len(answer) == 0 {
		t.Error("no word of what was wrong")
	}
}

func TestClientOfAnotherJob(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	stranger := client.New(client.Config{Schema: c.schema, Job: job + 1})
	defer stranger.Close()
	stranger.SetRoute(1, c.copyRoute(), c.peers)
	var rows client.Rows
	if err := stranger.Read(c.ctx, 1, 1, allKeys(&c.schema), &rows); !errors.Is(err, wire.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	ctx, cancel := context.WithCancel(c.ctx)
	cl := c.client("")
	ended := make(chan error, 3)
	var rows [2]client.Rows
	go func() { ended <- cl.Read(ctx, 1, 5, allKeys(&c.schema), &rows[0]) }() // clock 4 never comes
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("read ends with %v", err)
	}
	go func() { ended <- cl.Read(c.ctx, 1, 5, allKeys(&c.schema), &rows[1]) }()
	go func() {
		ended <- cl.Contribute(c.ctx, 2, 1, 1, 1, []ps.Split{0}, nil) // generation 2 never comes
	}()
	cl.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, client.ErrClosed) {
			t.Errorf("ends with %v", err)
		}
	}
}

// A waiting read ends with the generation, and moves to the new owner with the route.
func TestWaitingReadFollowsChanges(t *testing.T) {
	c := newCluster(t, toy(true, 0), nil, "a", "r")
	cl := c.client("")
	var rows client.Rows
	ended := make(chan error, 1)
	go func() { ended <- cl.Read(c.ctx, 1, 2, allKeys(&c.schema), &rows) }()
	for p := range c.route.Owner {
		if err := c.move(c.ctx, ps.Partition(p), "a", "r", server.Move{}); err != nil {
			t.Fatal(err)
		}
		c.route.Owner[p] = "r"
	}
	c.kill("a") // no server is left that knows where the partitions went
	c.announce()
	team := c.team()
	team.start(c.ctx, 1, 1)
	if err := team.wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	go func() { ended <- cl.Read(c.ctx, 1, 9, allKeys(&c.schema), &rows) }()
	c.nodes["r"].FenceGeneration(2)
	if err := <-ended; !errors.Is(err, client.ErrStale) {
		t.Errorf("ends with %v", err)
	}
}
