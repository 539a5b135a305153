package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

// hand makes messages from arbitrary bytes: mostly valid numbers, so that requests get far, and sometimes any.
type hand struct {
	bytes  []byte
	schema *ps.Schema
}

func (h *hand) byte() byte {
	if len(h.bytes) == 0 {
		return 0
	}
	b := h.bytes[0]
	h.bytes = h.bytes[1:]
	return b
}

// number is nearly always below most.
func (h *hand) number(most uint64) uint64 {
	b := h.byte()
	switch {
	case b < 0xe0:
		return uint64(b) % most
	case b < 0xe8:
		return most + uint64(b)%8
	case b < 0xf0:
		return math.MaxInt64 - uint64(b)%8
	case b < 0xf8:
		return uint64(h.byte())<<20 | uint64(h.byte())<<8
	default:
		return binary.LittleEndian.Uint64([]byte{h.byte(), h.byte(), h.byte(), h.byte(), h.byte(), h.byte(), h.byte(), h.byte() & 0x7f})
	}
}

func (h *hand) clock() ps.Clock             { return ps.Clock(h.number(8)) }
func (h *hand) partition() ps.Partition     { return ps.Partition(h.number(uint64(h.schema.Partitions))) }
func (h *hand) incarnation() ps.Incarnation { return ps.Incarnation(h.number(4)) }
func (h *hand) count() int                  { return int(h.byte() % 5) }

func (h *hand) splits() []ps.Split {
	var list []ps.Split
	if h.byte()%2 == 0 { // a run of keys, in order
		first, n := h.number(uint64(h.schema.Splits)), h.number(uint64(h.schema.Splits)+1)
		for i := range min(n, 64) {
			list = append(list, ps.Split(first+i))
		}
		return list
	}
	for range h.count() {
		list = append(list, ps.Split(h.number(uint64(h.schema.Splits))))
	}
	return list
}

// keys are mostly of the partition.
func (h *hand) keys(p ps.Partition, n int) []ps.Key {
	var keys []ps.Key
	for range n {
		k := ps.Key{Table: ps.TableID(h.number(uint64(len(h.schema.Tables)))), Row: ps.RowID(h.number(20))}
		for range 60 {
			if int(k.Table) >= len(h.schema.Tables) || uint64(k.Row) >= h.schema.Tables[k.Table].Rows || h.schema.PartitionOf(k) == p {
				break
			}
			k.Row++
		}
		keys = append(keys, k)
	}
	return keys
}

func (h *hand) sums(p ps.Partition) ps.Sums {
	var u ps.Sums
	for _, k := range h.keys(p, h.count()) {
		cols := 3
		if int(k.Table) < len(h.schema.Tables) {
			cols = h.schema.Cols(k)
		}
		fixed, float := make([]int64, cols), make([]float32, cols)
		for i := range fixed {
			x := h.byte()
			fixed[i], float[i] = int64(x)<<(x%60), math.Float32frombits(uint32(x)<<(x%30))
		}
		if int(k.Table) < len(h.schema.Tables) {
			h.schema.AppendSum(&u, k, fixed, float)
			continue
		}
		u.Keys, u.Fixed, u.Float = append(u.Keys, k), append(u.Fixed, fixed...), append(u.Float, float...)
	}
	switch h.byte() {
	case 0xff:
		u.Float = append(u.Float, 1)
	case 0xfe:
		u.Fixed = u.Fixed[:len(u.Fixed)/2]
	case 0xfd:
		u.Float = u.Float[:len(u.Float)/2]
	}
	return u
}

func (h *hand) block(p ps.Partition) ps.Block {
	var b ps.Block
	for _, k := range h.keys(p, h.count()) {
		width := 2
		if int(k.Table) < len(h.schema.Tables) {
			width = h.schema.Tables[k.Table].Width()
		}
		row := make([]float32, width)
		for i := range row {
			row[i] = float32(h.byte())
		}
		if int(k.Table) < len(h.schema.Tables) && h.byte() < 0xf0 {
			b.AddRow(h.schema, k, row)
		} else {
			b.Add(k, row)
		}
	}
	return b
}

func (h *hand) stage() wire.Stage {
	m := wire.Stage{Incarnation: h.incarnation(), Sequence: h.number(8), Clock: h.clock(), Splits: h.splits()}
	if h.byte()%2 == 0 { // all partitions, as workers do
		for p := range ps.Partition(h.schema.Partitions) {
			m.Partitions = append(m.Partitions, wire.PartitionSums{Partition: p})
		}
	}
	for range h.count() {
		p := h.partition()
		part := wire.PartitionSums{Partition: p, Sums: h.sums(p)}
		if h.byte()%3 == 0 {
			part.Piece, part.More = uint32(h.number(3)), h.byte()%2 == 0
		}
		m.Partitions = append(m.Partitions, part)
	}
	return m
}

func (h *hand) move() wire.MoveID {
	return wire.MoveID{From: ps.ServerID([]string{"a", "b", ""}[h.byte()%3]), Version: h.number(3), Number: h.number(4), Partition: h.partition()}
}

func (h *hand) final(p ps.Partition) ps.Final {
	f := ps.Final{Rows: h.block(p), Folded: h.clock(), Base: h.clock(), Full: h.byte()%2 == 0, Dirty: h.keys(p, h.count())}
	for range h.schema.Splits {
		f.Marks = append(f.Marks, f.Folded)
	}
	for i := range h.count() {
		if split := h.number(uint64(h.schema.Splits)); split < uint64(len(f.Marks)) {
			f.Marks[split] += ps.Clock(h.number(3))
		}
		f.Pending = append(f.Pending, ps.PendingClock{Clock: f.Folded + 1 + ps.Clock(i), Committed: int(h.number(4)), Sums: h.sums(p)})
	}
	for range h.count() {
		f.Staged = append(f.Staged, &ps.Contribution{
			Incarnation: h.incarnation(), Sequence: h.number(8), Clock: h.clock(), Splits: h.splits(), Updates: h.sums(p),
		})
	}
	for range h.count() {
		f.Settled = append(f.Settled, ps.Settled{Incarnation: h.incarnation(), Sequence: h.number(8), Fenced: h.byte()%4 == 0})
	}
	return f
}

// message returns the next request.
func (h *hand) message() wire.Message {
	switch h.byte() % 14 {
	case 0, 1:
		m := &wire.Read{Stored: h.byte()%4 == 0, Clock: h.clock(), Incarnation: h.incarnation()}
		for range h.count() {
			p := h.partition()
			keys := h.keys(p, h.count())
			m.Groups, m.Keys = append(m.Groups, wire.KeyGroup{Partition: p, Keys: len(keys)}), append(m.Keys, keys...)
		}
		return m
	case 2:
		m := h.stage()
		return &m
	case 3, 4:
		return &wire.Contribute{Stage: h.stage()}
	case 5, 6:
		m := &wire.Commit{Incarnation: h.incarnation(), Sequence: h.number(8)}
		for p := range ps.Partition(h.schema.Partitions) {
			m.Partitions = append(m.Partitions, p)
		}
		return m
	case 7:
		return &wire.CutReady{From: h.move().From, Cut: h.clock(), Partitions: []ps.Partition{h.partition(), h.partition()}}
	case 8:
		return &wire.PullCut{Cut: h.clock(), Partition: h.partition(), Full: h.byte()%2 == 0, From: h.number(9), MaxBytes: h.number(200)}
	case 9:
		id := h.move()
		return &wire.MoveRows{Move: id, Piece: h.number(3), Rows: h.block(id.Partition)}
	case 10:
		id := h.move()
		m := &wire.MoveFinal{Move: id, Pieces: h.number(3), Final: h.final(id.Partition)}
		if h.byte()%3 == 0 {
			m.Part, m.More = h.number(3), h.byte()%2 == 0
		}
		if m.Part > 0 {
			m.Final.Marks, m.Final.Settled = nil, nil
		}
		return m
	case 11:
		return &wire.MoveDone{Move: h.move()}
	case 12:
		id := h.move()
		return &wire.MoveFill{Move: id, Piece: h.number(3), Rows: h.block(id.Partition)}
	default:
		return &wire.MoveCancel{Move: h.move()}
	}
}

// command makes the controller do something that it may do at any time.
func (h *hand) command(s *server.Server, generation *ps.Generation, route ps.Route) {
	cut := ps.Clock(h.byte() % 8)
	switch h.byte() % 7 {
	case 0:
		_ = s.NameCut(cut)
	case 1:
		_ = s.CommitCut(cut)
	case 2:
		s.UnnameCut(cut)
	case 3:
		s.FenceWorker(h.incarnation())
	case 4:
		_ = s.SettleWorker(h.incarnation(), uint64(h.byte()%8), h.byte()%2 == 0)
	case 5:
		s.TakeStock()
	case 6:
		*generation++
		s.FenceGeneration(*generation)
		_ = s.Recover(*generation, cut, route, map[ps.ServerID]string{})
	}
}

// serving returns a server that owns half of its partitions and backs up the others, without a network. End stops it.
func serving(schema ps.Schema, log *slog.Logger) (s *server.Server, route ps.Route, end func()) {
	s = server.New(server.Config{Self: "a", Schema: schema, Job: job, Listener: nobody{}, Log: log, ChunkBytes: 200})
	route = ps.Route{Version: 1}
	for p := range ps.Partition(schema.Partitions) {
		owner, backup := ps.ServerID("a"), ps.ServerID("b")
		if p%2 == 1 {
			owner, backup = backup, owner
			s.BackUp([]ps.Partition{p}, p%4 == 1)
		} else {
			s.Own([]ps.Partition{p})
		}
		route.Owner, route.Backup = append(route.Owner, owner), append(route.Backup, backup)
	}
	s.SetRoute(1, route, map[ps.ServerID]string{})
	return s, route, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Serve(ctx)
	}
}

// nobody is a listener without connections.
type nobody struct{}

func (nobody) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (nobody) Close() error              { return nil }
func (nobody) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: os.Getpid()} }

// dialog makes a server answer the messages made from the bytes.
func dialog(program []byte) {
	h := &hand{bytes: program}
	staleness := []ps.Clock{0, 0, 2, ps.Unbounded}[h.byte()%4]
	schema := toy(staleness == 0 && h.byte()%2 == 0, staleness)
	h.schema = &schema
	s, route, end := serving(schema, slog.New(slog.DiscardHandler))
	defer end()
	given, cancel := context.WithCancel(context.Background())
	cancel() // requests that would have to wait are given up
	generation := ps.Generation(1)
	for len(h.bytes) > 0 {
		if h.byte() >= 0xf0 {
			h.command(s, &generation, route)
			continue
		}
		m := h.message()
		answer := s.HandleNow(generation, m)
		if answer == nil {
			answer = s.Handle(given, generation, m)
		}
		wire.Release(answer)
	}
}

// heap returns how much memory is in use after garbage collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// FuzzServer sends a server messages made from the bytes, between commands of its controller: it neither panics nor allocates much more
// memory than it has received.
func FuzzServer(f *testing.F) {
	random := rand.New(rand.NewPCG(14, 7))
	for range 60 {
		program := make([]byte, 20+random.IntN(400))
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 4<<10 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		dialog(program)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20+uint64(len(program))<<14 {
			t.Errorf("%d bytes of messages took %d bytes of memory", len(program), took)
		}
	})
}

// Many dialogs from a seed, more with TIERML_FUZZ_ROUNDS.
func TestServerWithstandsAnything(t *testing.T) {
	rounds := rounds(t, 2000)
	random := rand.New(rand.NewPCG(uint64(rounds), 1))
	for i := range rounds {
		program := make([]byte, 50+random.IntN(1500))
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("dialog %d: %v\n%x\n%s", i, p, program, stack())
				}
			}()
			dialog(program)
		}()
	}
}

func stack() []byte {
	b := make([]byte, 64<<10)
	return b[:runtime.Stack(b, false)]
}

func rounds(t *testing.T, few int) int {
	if text := os.Getenv("TIERML_FUZZ_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return few
}

// Attacks that once took a server down: contributions of no split, for any clock, by many incarnations.
func TestContributionWithoutSplits(t *testing.T) {
	for _, staleness := range []ps.Clock{0, 1, ps.Unbounded} {
		s, _, end := serving(toy(false, staleness), slog.New(slog.DiscardHandler))
		before := heap()
		for i, clock := range []ps.Clock{0, 1, 2, 6e7, math.MaxInt64, 1 << 62} {
			m := &wire.Contribute{Stage: wire.Stage{Incarnation: ps.Incarnation(i), Sequence: 1, Clock: clock,
				Partitions: []wire.PartitionSums{{Partition: 0}}}}
			ack, ok := s.Handle(context.Background(), 1, m).(*wire.Ack)
			if !ok || ack.Partitions[0].Code != wire.Invalid {
				t.Errorf("staleness %d, clock %d: %+v", staleness, clock, ack)
			}
		}
		if took := int64(heap()) - int64(before); took > 1<<20 {
			t.Errorf("it took %d bytes", took)
		}
		end()
	}
}

// A split that runs ahead of the others has to wait at some point.
func TestAheadIsBounded(t *testing.T) {
	s, _, end := serving(toy(false, ps.Unbounded), slog.New(slog.DiscardHandler))
	defer end()
	code, clock := wire.Committed, ps.Clock(0)
	for code == wire.Committed && clock < 100_000 {
		clock++
		m := &wire.Contribute{Stage: wire.Stage{Incarnation: 1, Sequence: uint64(clock), Clock: clock, Splits: []ps.Split{0},
			Partitions: []wire.PartitionSums{{Partition: 0}}}}
		code = s.Handle(context.Background(), 1, m).(*wire.Ack).Partitions[0].Code
	}
	if code != wire.Retry || clock > 5000 {
		t.Errorf("clock %d: %v", clock, code)
	}
}

// However many reads wait, they use no memory for their answers.
func TestWaitingReadsTakeLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schema := ps.Schema{Tables: []ps.Table{{Name: "wide", Rows: 1000, Cols: 16 << 10}}, Partitions: 2, Splits: 2, Deterministic: true}
		s, _, end := serving(schema, slog.New(slog.DiscardHandler))
		defer end()
		var keys []ps.Key
		for row := range ps.RowID(1000) {
			if k := (ps.Key{Row: row}); schema.PartitionOf(k) == 0 && len(keys) < 200 {
				keys = append(keys, k)
			}
		}
		before := heap()
		ctx, cancel := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		for range 150 { // of 13 MB each
			waiting.Go(func() {
				wire.Release(s.Handle(ctx, 1, &wire.Read{Clock: 2, Groups: []wire.KeyGroup{{Partition: 0, Keys: len(keys)}}, Keys: keys}))
			})
		}
		synctest.Wait() // all wait
		if took := int64(heap()) - int64(before); took > 64<<20 {
			t.Errorf("150 reads that wait took %d MB", took>>20)
		}
		cancel()
		waiting.Wait()
	})
}

// lines counts log lines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Refusals do not fill the log.
func TestRefusalsAreFewLines(t *testing.T) {
	var log lines
	s, _, end := serving(toy(false, 0), slog.New(slog.NewTextHandler(&log, nil)))
	defer end()
	for i := range 5000 {
		s.Handle(context.Background(), 1, &wire.Stage{Incarnation: 1, Sequence: uint64(i + 1), Clock: 99, Splits: []ps.Split{0},
			Partitions: []wire.PartitionSums{{Partition: 0}}})
		s.Handle(context.Background(), 1, &wire.MoveFinal{Move: wire.MoveID{From: "b", Number: 1, Partition: 0}})
	}
	if n := bytes.Count(log.b.Bytes(), []byte("\n")); n == 0 || n > 100 {
		t.Errorf("%d lines, %d bytes", n, log.b.Len())
	}
}

// Final messages whose numbers do not belong together.
func TestFinalOfNonsense(t *testing.T) {
	schema := toy(false, 1)
	for name, spoil := range map[string]func(f *ps.Final){
		"far ahead":       func(f *ps.Final) { f.Marks[0] = 6e7; f.Pending = []ps.PendingClock{{Clock: 6e7, Committed: 1}} },
		"nothing pending": func(f *ps.Final) { f.Marks[0] = 1 },
		"not so many":     func(f *ps.Final) { f.Marks[0] = 1; f.Pending = []ps.PendingClock{{Clock: 1, Committed: 2}} },
		"complete": func(f *ps.Final) {
			f.Marks = []ps.Clock{1, 1, 1, 1, 1, 1}
			f.Pending = []ps.PendingClock{{Clock: 1, Committed: 6}}
		},
		"beyond":   func(f *ps.Final) { f.Base = 2 },
		"no split": func(f *ps.Final) { f.Staged = []*ps.Contribution{{Incarnation: 1, Sequence: 1, Clock: 1}} },
	} {
		f := &ps.Final{Marks: make([]ps.Clock, schema.Splits)}
		spoil(f)
		s, _, end := serving(schema, slog.New(slog.DiscardHandler))
		id := wire.MoveID{From: "b", Number: 1, Partition: 1}
		s.Handle(context.Background(), 1, &wire.MoveRows{Move: id})
		if answer, ok := s.Handle(context.Background(), 1, &wire.MoveFinal{Move: id, Pieces: 1, Final: *f}).(*wire.Error); !ok || answer.Code != wire.Invalid {
			t.Errorf("%s: %v", name, fmt.Sprint(answer))
		}
		end()
	}
}

// Many reads wait on connections whose answers are not read, and long bodies are announced that do not come. When the reads need no longer
// wait, their answers, 4.8 GB, use no more memory than the server reserves for them.
func TestConnectionsAreBounded(t *testing.T) {
	const cols, keys = 16 << 10, 120 // 8 MB
	schema := ps.Schema{Tables: []ps.Table{{Name: "rows", Rows: 1 << 20, Cols: cols}}, Partitions: 1, Splits: 2, Deterministic: true}
	c := newCluster(t, schema, nil, "a")
	body := binary.LittleEndian.AppendUint64(nil, 2) // clock
	body = binary.LittleEndian.AppendUint64(body, 7) // incarnation
	body = binary.LittleEndian.AppendUint64(body, 1) // groups
	body = binary.LittleEndian.AppendUint64(body, keys<<32)
	for row := range uint64(keys) {
		body = binary.LittleEndian.AppendUint64(body, row)
	}
	read := frame(3, job, 1, body, uint32(len(body)))
	var connections []net.Conn
	defer func() {
		for _, conn := range connections {
			_ = conn.Close()
		}
	}()
	send := func(bytes []byte) {
		conn, err := net.Dial("tcp", c.peers["a"])
		if err != nil {
			t.Fatal(err)
		}
		connections = append(connections, conn)
		if _, err := conn.Write(bytes); err != nil {
			t.Fatal(err)
		}
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	for range 200 {
		send(frame(5, job, 1, nil, wire.MaxBody)[:40])
	}
	for range 10 {
		send(bytes.Repeat(read, 60))
	}
	for runtime.NumGoroutine() < goroutines+10*60 && c.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // each read must wait for its clock: an answer that is ready counts as the connection's
	}
	cl := c.client("")
	if err := cl.Contribute(c.ctx, 1, 9, 1, 1, []ps.Split{0, 1}, nil); err != nil {
		t.Fatal(err)
	}
	var most uint64
	for still := 0; still < 100 && int64(most)-int64(before) <= 700<<20; still++ {
		time.Sleep(20 * time.Millisecond) // for the answers to be made, on a busy computer, too
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc > most {
			most, still = m.HeapAlloc, 0
		}
	}
	if took := int64(most) - int64(before); took > 700<<20 {
		t.Errorf("answers that nobody reads, and bodies that do not come, hold %d MB", took>>20)
	}
}

// unreadable is a connection that panics when it is read.
type unreadable struct{ net.Conn }

func (unreadable) Read([]byte) (int, error) { panic("unreadable") }

// one is a listener that accepts one connection.
type one struct {
	net.Listener
	conn chan net.Conn
}

func (l one) Accept() (net.Conn, error) {
	conn, ok := <-l.conn
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// A panic while a connection is served is reported.
func TestPanicsAreReported(t *testing.T) {
	told := make(chan any, 1)
	listener := one{nobody{}, make(chan net.Conn, 1)}
	s := server.New(server.Config{Self: "a", Schema: toy(true, 0), Job: job, Listener: listener, Panicked: func(value any, _ []byte) {
		told <- value
		runtime.Goexit() // instead of ending the process
	}})
	here, there := net.Pipe()
	defer here.Close()
	listener.conn <- unreadable{there}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ctx) })
	if value := <-told; value != "unreadable" {
		t.Errorf("told of %v", value)
	}
	cancel()
	close(listener.conn)
	serving.Wait()
}
