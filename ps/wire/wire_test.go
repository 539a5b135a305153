package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/tierml/tierml/ps"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill sets every exported field of a message to something other than zero, except functions.
func fill(v reflect.Value, random *rand.Rand) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), random)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), random)
			}
		}
	case reflect.Slice:
		n := 1 + random.IntN(5)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), random)
		}
	case reflect.String:
		v.SetString("i-0123456789abcdef0"[:1+random.IntN(19)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32:
		v.SetFloat(float64(random.Float32()))
	case reflect.Int, reflect.Int64:
		v.SetInt(random.Int64N(1 << 40))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(random.Uint64N(1 << 16))
	case reflect.Func: // does not travel
	default:
		panic(v.Kind())
	}
}

// samples are messages of every type.
func samples() []Message {
	random := rand.New(rand.NewPCG(1, 1))
	var list []Message
	for t := Type(1); newMessage(t) != nil; t++ {
		m := newMessage(t)
		fill(reflect.ValueOf(m).Elem(), random)
		switch m := m.(type) {
		case *Read: // groups and keys agree
			m.Stored = t == typeReadStored
			m.Groups = []KeyGroup{{7, 2}, {9, 0}, {1 << 31, 1}}
			m.Keys = []ps.Key{{Table: 1, Row: 1<<48 - 1}, {Table: 65535, Row: 3}, {}}
		case *Ack:
			m.Partitions = []PartitionStatus{{1, OK, "", ""}, {2, Moved, "i-1", "h:1"}, {3, Committed, "", ""}}
		case *Rows:
			m.Groups = []PartitionStatus{{1, OK, "", ""}, {2, Moved, "", ""}}
			m.Stamps = []ps.Stamp{{Folded: 1<<63 - 1, Own: 1<<64 - 1}, {}}
			m.Values = make([]float32, 5000) // sent without a copy
			for i := range m.Values {
				m.Values[i] = random.Float32()
			}
		case *Stage:
			m.whole()
			m.Partitions[0].Sums.Fixed = []int64{-1, 1 << 62}
			m.Partitions[0].Sums.Float = nil
		case *Contribute:
			m.whole()
			for _, transport := range []ps.Transport{ps.BF16, ps.Int8} {
				m.Partitions = append(m.Partitions, PartitionSums{Partition: 8, Transport: transport, Sums: ps.Sums{Keys: make([]ps.Key, 2), Float: []float32{1, -0.5, 0.3, 0, 64, 0.7}}},
					PartitionSums{Partition: 9, Transport: transport, Sums: ps.Sums{Keys: make([]ps.Key, 1), Fixed: []int64{-1, 3, 1 << 62}}})
			}
		}
		list = append(list, m)
	}
	return list
}

// whole makes a message as workers without a transport send it.
func (m *Stage) whole() {
	for i := range m.Partitions {
		m.Partitions[i].Transport = ps.Whole
	}
}

func encoded(t testing.TB, h header, m Message) []byte {
	e, err := encode(h, m)
	if err != nil {
		t.Fatal(err)
	}
	defer e.release()
	return bytes.Join(e.appendTo(nil), nil)
}

func readMessage(b []byte, job uint64) (header, Message, error) {
	h, body, err := newFrameReader(bytes.NewReader(b), job).next()
	if err != nil {
		return h, nil, err
	}
	m, err := decode(h.kind, body)
	return h, m, err
}

var asMessages = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(Read{}, "Into"),
	cmpopts.IgnoreFields(Rows{}, "Placed"),
	cmpopts.IgnoreUnexported(Read{}, Rows{}, Stage{}, Contribute{}, Delivery{}, PullCut{}, MoveRows{}, MoveFill{}, ps.Contribution{}, ps.PendingClock{}),
}

func TestEveryMessageComesBack(t *testing.T) {
	for _, m := range samples() {
		h := header{kind: m.Type(), answer: true, request: 1 << 63, job: 42, generation: 7}
		b := encoded(t, h, m)
		got, back, err := readMessage(b, 42)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		h.length = len(b) - headerSize
		if got != h {
			t.Errorf("%T: header %+v, not %+v", m, got, h)
		}
		if diff := cmp.Diff(m, back, asMessages); diff != "" {
			t.Errorf("%T: %s", m, diff)
		}
		if len(b)%8 != 0 {
			t.Errorf("%T takes %d bytes: what follows would not be aligned", m, len(b))
		}
	}
}

func TestZeroMessagesComeBack(t *testing.T) {
	for typ := Type(1); newMessage(typ) != nil; typ++ {
		m := reflect.New(reflect.TypeOf(newMessage(typ)).Elem()).Interface().(Message)
		_, back, err := readMessage(encoded(t, header{job: 1}, m), 1)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		if diff := cmp.Diff(m, back, asMessages); diff != "" {
			t.Errorf("%T: %s", m, diff)
		}
	}
}

// A frame that ends early is an error at every byte, and so is a body that ends early in a frame that does not.
func TestTruncation(t *testing.T) {
	for _, m := range samples() {
		if rows, ok := m.(*Rows); ok {
			rows.Values = rows.Values[:9]
		}
		b := encoded(t, header{job: 1}, m)
		for n := range b {
			if _, _, err := readMessage(b[:n], 1); err == nil {
				t.Fatalf("%T of %d bytes was read from %d", m, len(b), n)
			} else if want := io.ErrUnexpectedEOF; n > 0 && !errors.Is(err, want) {
				t.Fatalf("%T cut to %d bytes: %v", m, n, err)
			}
		}
		for n := headerSize; n < len(b); n++ {
			body := newExactBuffer(n - headerSize)
			copy(body.Bytes(), b[headerSize:])
			if _, err := decode(m.Type(), body); !errors.Is(err, ErrRefused) {
				t.Fatalf("%T with a body of %d bytes instead of %d: %v", m, n-headerSize, len(b)-headerSize, err)
			}
		}
	}
}

func TestHeaderIsRefused(t *testing.T) {
	good := encoded(t, header{request: 1, job: 1}, &Ack{})
	for i := range headerSize {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		if _, _, err := readMessage(b, 1); !errors.Is(err, ErrRefused) {
			t.Errorf("byte %d damaged: %v", i, err)
		}
	}
	if _, _, err := readMessage(good, 2); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "job") {
		t.Errorf("another job: %v", err)
	}
	long := header{kind: typeStage, job: 1, length: MaxBody + 1}
	b := make([]byte, headerSize)
	long.put(b)
	if _, _, err := readMessage(b, 1); !errors.Is(err, ErrRefused) {
		t.Errorf("too long: %v", err)
	}
}

// A frame's length alone must not claim much memory.
func TestClaimsDoNotAllocate(t *testing.T) {
	h := header{kind: typeStage, job: 1, length: MaxBody}
	b := make([]byte, headerSize+100)
	h.put(b)
	bytesPerRun := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for range tb.N {
			if _, _, err := readMessage(b, 1); err == nil {
				tb.Fatal("read a frame that is not there")
			}
		}
	}).AllocedBytesPerOp()
	if bytesPerRun > 2*firstRead {
		t.Errorf("a claim of %d bytes took %d", MaxBody, bytesPerRun)
	}
}

// Numbers that a transport can represent take its bytes; others are sent in full, and marked.
func TestTransport(t *testing.T) {
	sums := ps.Sums{Keys: make([]ps.Key, 1), Float: make([]float32, 4097)}
	for i := range sums.Float {
		sums.Float[i] = 1 / float32(i+3)
	}
	sizes := map[ps.Transport]int{}
	for transport := ps.Whole; transport <= ps.Int8; transport++ {
		transport.Round(sums.Float[:4096])
		m := &Contribute{Stage: Stage{Clock: 1, Partitions: []PartitionSums{{Transport: transport, Sums: sums}}}}
		b := encoded(t, header{kind: m.Type(), job: 1}, m)
		_, back, err := readMessage(b, 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Message(m), back, asMessages); diff != "" {
			t.Error(diff)
		}
		sizes[transport] = len(b)
	}
	if a, b := sizes[ps.Whole]-sizes[ps.BF16], sizes[ps.Whole]-sizes[ps.Int8]; a != 8192 || b != 12272 {
		t.Errorf("bf16 saves %d bytes, int8 %d", a, b)
	}
	sums.Float[7] = 0.1
	m := &Contribute{Stage: Stage{Clock: 1, Partitions: []PartitionSums{{Transport: ps.Int8, Sums: sums}}}}
	b := encoded(t, header{kind: m.Type(), job: 1}, m)
	_, back, err := readMessage(b, 1)
	if err != nil || len(b) != sizes[ps.Whole] || back.(*Contribute).Partitions[0].Transport != ps.Whole {
		t.Errorf("what int8 cannot carry takes %d bytes, %v", len(b), err)
	}
}

func TestTooLongIsNotSent(t *testing.T) {
	if _, err := encode(header{}, &Rows{Values: make([]float32, MaxBody/4+1)}); !errors.Is(err, ErrRefused) {
		t.Errorf("encode: %v", err)
	}
	if _, err := encode(header{}, &Read{Groups: []KeyGroup{{0, 1}}, Keys: []ps.Key{{Row: 1 << 48}}}); !errors.Is(err, ErrRefused) {
		t.Errorf("a row beyond 2^48: %v", err)
	}
}

// Whatever is decoded encodes to the same bytes: each message has one encoding.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		b := encoded(f, header{}, m)
		if len(b) < 4096 {
			f.Add(uint8(m.Type()), b[headerSize:])
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		body := newExactBuffer(len(raw))
		copy(body.Bytes(), raw)
		m, err := decode(Type(kind), body)
		if err != nil {
			return
		}
		if got := encoded(t, header{}, m)[headerSize:]; !bytes.Equal(got, raw) {
			t.Fatalf("%T: %x is decoded and encoded to %x", m, raw, got)
		}
	})
}

// FuzzFrame reads data from a stranger.
func FuzzFrame(f *testing.F) {
	for _, m := range samples() {
		if b := encoded(f, header{job: 1, request: 1}, m); len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, m, err := readMessage(raw, 1)
		if err == nil && !bytes.HasPrefix(raw, encoded(t, h, m)) {
			t.Fatalf("%+v does not encode to what it was read from", h)
		}
	})
}

func TestChecksumDoesNotDependOnPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	var whole ps.Block
	var pieces, once Checksum
	for range 300 {
		var piece ps.Block
		for range random.IntN(3) {
			piece.Add(ps.Key{Table: ps.TableID(random.IntN(3)), Row: ps.RowID(random.IntN(99))}, []float32{random.Float32()})
		}
		pieces.Add(&piece)
		piece.Each(&ps.Schema{Tables: make([]ps.Table, 3)}, func(ps.Key, []float32) {})
		whole.Keys = append(whole.Keys, piece.Keys...)
		whole.Values = append(whole.Values, piece.Values...)
	}
	once.Add(&whole)
	if once != pieces || once == (Checksum{}) {
		t.Errorf("%x in one piece, %x in many", once, pieces)
	}
}

// On a machine with the other byte order, or if a message is not aligned, numbers are copied.
func TestUnalignedView(t *testing.T) {
	values := []float32{1, -2.5, 3e-30}
	b := append([]byte{0}, raw(values)...)
	if got := view[float32](b[1:]); !reflect.DeepEqual(got, values) {
		t.Errorf("got %v", got)
	}
	fixed := []int64{-1, 1 << 40}
	b = append([]byte{0}, raw(fixed)...)
	if got := view[int64](b[1:]); !reflect.DeepEqual(got, fixed) {
		t.Errorf("got %v", got)
	}
}

func (e echo) HandleNow(ps.Generation, Message) Message { return nil }

// echo answers Read with as many values as there are keys, once released.
type echo struct{ gate chan struct{} }

func (e echo) Handle(ctx context.Context, _ ps.Generation, request Message) Message {
	defer Release(request)
	m, ok := request.(*Read)
	if !ok {
		return &Error{Code: Invalid, Text: "not a read"}
	}
	if m.Clock > 0 {
		select {
		case <-e.gate:
		case <-ctx.Done():
		}
	}
	rows := NewRows(len(m.Keys))
	for i, k := range m.Keys {
		rows.Values[i] = float32(k.Row)
	}
	return rows
}

func serveEcho(t testing.TB, e echo) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s := &Server{Job: 1, Handler: e, Log: discard, Traffic: new(Traffic)}
	done.Go(func() {
		if err := s.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return listener.Addr().String()
}

func TestLinkMatchesAnswers(t *testing.T) {
	e := echo{gate: make(chan struct{})}
	links := &Links{Job: 1}
	defer links.Close()
	address := serveEcho(t, e)
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			link, err := links.To(t.Context(), address)
			if err != nil {
				t.Error(err)
				return
			}
			m := &Read{Clock: ps.Clock(i % 2), Groups: []KeyGroup{{0, 1}}, Keys: []ps.Key{{Row: ps.RowID(i)}}}
			rows, err := Ask[*Rows](t.Context(), link, 1, m)
			if err != nil || len(rows.Values) != 1 || rows.Values[0] != float32(i) {
				t.Errorf("call %d: %v, %v", i, rows, err)
				return
			}
			rows.Release()
		})
		if i == 25 {
			close(e.gate)
		}
	}
	calls.Wait()
	link, err := links.To(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := link.Call(t.Context(), 1, &MoveCancel{}); !errors.Is(err, ps.ErrInvalid) {
		t.Errorf("a refused request gives %v", err)
	}
	if _, err := Ask[*Ack](t.Context(), link, 1, &Read{}); err == nil {
		t.Error("an answer of another type was taken")
	}
}

func TestLinkBreaks(t *testing.T) {
	address := serveEcho(t, echo{gate: make(chan struct{})})
	links := &Links{Job: 1}
	link, err := links.To(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := link.Call(t.Context(), 1, &Read{Clock: 1})
		ended <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := link.Call(ctx, 1, &Read{Clock: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call ends with %v", err)
	}
	links.Close()
	if err := <-ended; err == nil {
		t.Error("a call outlived its link")
	}
	if _, err := links.To(t.Context(), address); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed set of links gives %v", err)
	}
	if _, err := link.Call(t.Context(), 1, &Read{}); err == nil {
		t.Error("a closed link took a call")
	}
}
