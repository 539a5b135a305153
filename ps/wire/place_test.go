package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
)

// hesitant returns a few bytes at a time, and sometimes none because of a deadline.
type hesitant struct {
	from   io.Reader
	random *rand.Rand
}

func (h *hesitant) Read(b []byte) (int, error) {
	if h.random.IntN(4) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return h.from.Read(b[:min(len(b), 1+h.random.IntN(3000))])
}

// TestValuesAreReadToWhereTheyBelong reads answers with and without memory of the caller's, in pieces of any length, from a
// connection that is interrupted at any point.
func TestValuesAreReadToWhereTheyBelong(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		request := &Read{}
		var want []float32
		groups := random.IntN(4)
		answer := &Rows{}
		for p := range groups {
			request.Groups = append(request.Groups, KeyGroup{Partition: ps.Partition(p), Keys: 1})
			answer.Groups = append(answer.Groups, PartitionStatus{Partition: ps.Partition(p)})
			answer.Stamps = append(answer.Stamps, ps.Stamp{Folded: ps.Clock(random.Uint64() >> 1), Own: random.Uint64()})
		}
		for range random.IntN(5) {
			piece := make([]float32, random.IntN(3000))
			request.Into = append(request.Into, piece)
			for range piece {
				want = append(want, random.Float32())
			}
		}
		answer.Values = want
		placed := true
		if groups > 0 && random.IntN(3) == 0 { // the expected length, but something else
			answer.Groups[random.IntN(groups)].Code = Retry
			placed = false
		}
		h := header{kind: typeRows, answer: true, request: 9, job: 1}
		stream := slices.Concat(encoded(t, h, answer), encoded(t, h, answer))
		f := newFrameReader(&hesitant{bytes.NewReader(stream), random}, 1)
		f.place = func(header) *placement {
			p := newPlacement(request)
			f.place = nil // the second answer goes to a buffer
			return p
		}
		for i := range 2 {
			got, body, err := f.next()
			for errors.Is(err, os.ErrDeadlineExceeded) {
				got, body, err = f.next()
			}
			if err != nil {
				t.Fatal(err)
			}
			if placed && i == 0 {
				if values := slices.Concat(request.Into...); body != nil || !slices.Equal(values, want) || !slices.Equal(f.stamps, answer.Stamps) {
					t.Fatalf("other values than sent, or in a buffer (%t)", body != nil)
				}
				continue
			}
			m, err := decode(got.kind, body)
			if err != nil {
				t.Fatal(err)
			}
			if rows := m.(*Rows); !slices.Equal(rows.Values, want) || !slices.Equal(rows.Groups, answer.Groups) || !slices.Equal(rows.Stamps, answer.Stamps) {
				t.Fatal("other rows than sent")
			}
		}
	}
}

// TestPiecesGoToMemoryOfFormerOnes: a piece of a cut is read into the requester's memory, if that is large enough and hardly larger.
func TestPiecesGoToMemoryOfFormerOnes(t *testing.T) {
	piece := &Delivery{Cut: 7, Rows: ps.Block{Keys: []ps.Key{{Row: 1}}, Values: make([]float32, 100_000)}}
	for i := range piece.Rows.Values {
		piece.Rows.Values[i] = float32(i)
	}
	stream := encoded(t, header{kind: typeDelivery, answer: true, request: 9, job: 1}, piece)
	length := len(stream) - headerSize
	for _, c := range []struct {
		size int
		used bool
	}{{length, true}, {length + length/32, true}, {length - 8, false}, {length / 2, false}, {2 * length, false}} {
		mine := newExactBuffer(c.size)
		f := newFrameReader(&hesitant{bytes.NewReader(stream), rand.New(rand.NewPCG(1, 2))}, 1)
		f.memory = func(header) *Buffer { return mine }
		got, body, err := f.next()
		for errors.Is(err, os.ErrDeadlineExceeded) {
			got, body, err = f.next()
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := decode(got.kind, body)
		if err != nil {
			t.Fatal(err)
		}
		if d := m.(*Delivery); !slices.Equal(d.Rows.Values, piece.Rows.Values) || (d.Memory() == mine) != c.used {
			t.Errorf("with memory of %d bytes for %d: used: %t", c.size, length, d.Memory() == mine)
		}
	}
}

// lender lends its values, which change as soon as they are returned.
type lender struct {
	mu     sync.Mutex
	values []float32
	ended  chan struct{}
}

func (l *lender) Handle(context.Context, ps.Generation, Message) Message {
	panic("all is answered now")
}

func (l *lender) HandleNow(_ ps.Generation, request Message) Message {
	Release(request)
	l.mu.Lock()
	n := len(l.values) / 3
	pieces := [][]float32{l.values[:10], l.values[10:n], l.values[n:]}
	return LendRows([]PartitionStatus{{Partition: 3}}, make([]ps.Stamp, 1), pieces, func() {
		for i := range l.values {
			l.values[i]++
		}
		l.mu.Unlock()
		l.ended <- struct{}{}
	})
}

// TestLentValues: they arrive as they were when lent, even if they are not read for a while, and are returned before that.
func TestLentValues(t *testing.T) {
	pool, own := certificates(t)
	config := &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	for name, n := range map[string]int{"plain": 12 << 20, "TLS": 1 << 20} { // the first is more than sockets hold
		t.Run(name, func(t *testing.T) {
			secured := name == "TLS"
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := &lender{values: make([]float32, n), ended: make(chan struct{}, 9)}
			s := &Server{Job: 1, Handler: l, Log: discard, Traffic: new(Traffic)}
			var dial Dialer = DialTCP
			if secured {
				s.TLS = config
				dial = SecureDialer(nil, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}})
			}
			ctx, cancel := context.WithCancel(t.Context())
			var done sync.WaitGroup
			done.Go(func() { _ = s.Serve(ctx, listener) })
			defer done.Wait()
			defer cancel()
			conn, err := dial(t.Context(), listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			for range 2 { // both are requested before an answer is read
				e, err := encode(header{request: 1, job: 1}, &Read{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := newWriter(conn).writeVector(e.appendTo(nil)); err != nil {
					t.Fatal(err)
				}
			}
			<-l.ended
			frames := newFrameReader(newReader(conn), 1)
			for i := range 2 {
				h, body, err := frames.next()
				if err != nil {
					t.Fatal(err)
				}
				m, err := decode(h.kind, body)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range m.(*Rows).Values {
					if x != float32(i) {
						t.Fatalf("answer %d has %g", i, x)
					}
				}
				Release(m)
			}
		})
	}
}

// TestLeavingAnAnswerOnItsWay: once Call has returned, nothing writes to the caller's memory any more.
func TestLeavingAnAnswerOnItsWay(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	link := NewLink(ours, 1, nil)
	defer link.Close()
	into := make([]float32, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := encoded(t, header{answer: true, request: 1, job: 1},
		&Rows{Groups: []PartitionStatus{{Partition: 0}}, Stamps: make([]ps.Stamp, 1), Values: make([]float32, len(into))})
	var serving sync.WaitGroup
	serving.Go(func() {
		if _, _, err := newFrameReader(theirs, 1).next(); err != nil {
			t.Error(err)
		}
		_, _ = theirs.Write(answer[:2000])
		cancel()
		_ = theirs.SetWriteDeadline(time.Now().Add(time.Minute))
		_, _ = theirs.Write(answer[2000:]) // until the link is broken
	})
	_, err := link.Call(ctx, 0, &Read{Groups: []KeyGroup{{0, 1}}, Keys: make([]ps.Key, 1), Into: [][]float32{into}})
	if err != nil {
		if !link.Broken() {
			t.Errorf("it ended with %v, and half an answer is left in the link", err)
		}
	}
	for i := range into {
		into[i] = 1 // the race detector reports any other writer
	}
	serving.Wait()
}
