package child

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/program"
)

// fake is a program: a connection controlled by a test, and the memory.
type fake struct {
	t     testing.TB
	conn  *net.UnixConn
	rows  []float32
	delta []float32
	words []uint32
	rest  []byte
	job   apps.Terms
	file  int
}

var terms = apps.Terms{Every: 5, Rate: 0.7, Momentum: 0.9, Transport: "float32", Steps: 50, Floats: 10, Replicas: 2, Seed: 1}

func helloOf(change func(*message)) message {
	m := message{Type: typeHello, Version: version, Tensors: []Tensor{{"a", "float32", []int{2, 2}}, {"b", "float32", []int{3}}}, Digest: strings.Repeat("0", 64)}
	if change != nil {
		change(&m)
	}
	return m
}

func dial(t testing.TB, place string) *fake {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: place, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &fake{t: t, conn: conn}
}

func (f *fake) send(m message) {
	text, _ := json.Marshal(m)
	_, _ = f.conn.Write(append(text, '\n'))
}

func (f *fake) receive() (m message) {
	f.t.Helper()
	_ = f.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for !slices.Contains(f.rest, '\n') {
		part, rights := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
		n, oob, _, _, err := f.conn.ReadMsgUnix(part, rights)
		if err != nil || n == 0 {
			return message{Type: "closed"}
		}
		if messages, err := syscall.ParseSocketControlMessage(rights[:oob]); err == nil && len(messages) > 0 {
			fds, _ := syscall.ParseUnixRights(&messages[0])
			f.file = fds[0]
		}
		f.rest = append(f.rest, part[:n]...)
	}
	line, rest, _ := strings.Cut(string(f.rest), "\n")
	f.rest = []byte(rest)
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		f.t.Error(err)
	}
	return m
}

// greet says hello and receives the welcome with the memory.
func (f *fake) greet(m message) message {
	f.t.Helper()
	f.send(m)
	welcome := f.receive()
	if welcome.Type != typeWelcome {
		return welcome
	}
	f.job = *welcome.Job
	all, err := syscall.Mmap(f.file, 0, int(welcome.Bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := syscall.Close(f.file); err != nil {
		f.t.Error(err)
	}
	f.words = unsafe.Slice((*uint32)(unsafe.Pointer(&all[0])), 1)
	if welcome.Row != 64 || welcome.Bytes != align+4*65 { // 7 floats in one row
		f.t.Errorf("%+v", welcome)
	}
	f.rows, f.delta = unsafe.Slice((*float32)(unsafe.Pointer(&all[page])), 7), unsafe.Slice((*float32)(unsafe.Pointer(&all[align])), 7)
	if welcome.Initial != "" {
		if err := os.WriteFile(welcome.Initial, []byte("a model"), 0o600); err != nil {
			f.t.Error(err)
		}
	}
	return welcome
}

// round pulls, receives an order, sets each delta to twice the row, and pushes.
func (f *fake) round(steps int) message {
	f.t.Helper()
	f.send(message{Type: typePull})
	return f.answer(steps)
}

func (f *fake) answer(steps int) message {
	f.t.Helper()
	o := f.receive()
	if o.Type == typeRound {
		for i, x := range f.rows {
			f.delta[i] = 2 * x
		}
		f.push(o, steps)
	}
	return o
}

func (f *fake) push(o message, steps int) {
	f.send(message{Type: typePush, Round: o.Round, Number: o.Number, Steps: steps, Loss: 3, Losses: steps})
}

// bench is a Child with a function as the program of each attempt.
type bench struct {
	*Child
	t      testing.TB
	place  chan string // of each attempt
	result chan error
	store  string
}

func newBench(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, place: make(chan string, 10), result: make(chan error, 1), store: t.TempDir()}
	cfg := Config{Grace: time.Millisecond, Terms: terms, Store: b.store, Log: slog.New(slog.DiscardHandler), Start: func(_ uint64, env map[string]string) error {
		b.place <- env[Variable]
		return nil
	}}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.Child = c
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.result <- c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return b
}

func (b *bench) dial() *fake {
	b.t.Helper()
	select {
	case place := <-b.place:
		return dial(b.t, place)
	case <-time.After(20 * time.Second):
		b.t.Fatal("the program was not started")
		return nil
	}
}

// failure waits for the child to fail permanently.
func (b *bench) failure() string {
	b.t.Helper()
	select {
	case err := <-b.result:
		if err == nil {
			b.t.Fatal("it has not failed")
		}
		return err.Error()
	case <-time.After(20 * time.Second):
		b.t.Fatal("it does not fail")
		return ""
	}
}

func ones(to []float32) {
	for i := range to {
		to[i] = 1
	}
}

func order(clock int) apps.Order {
	return apps.Order{Clock: 1, Replica: 1, First: 5 * (clock - 1), Steps: 5}
}

// A round's rows reach the program, and its delta the caller. The first program's model is kept for the others.
func TestRound(t *testing.T) {
	b := newBench(t, nil)
	f := b.dial()
	if w := f.greet(helloOf(nil)); w.Initial == "" || f.job != terms {
		t.Errorf("welcome %+v", w)
	}
	orders := make(chan message, 1)
	go func() { orders <- f.round(4) }()
	if n, err := b.Ready(t.Context()); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	d, delta, err := b.Round(t.Context(), order(3), ones)
	if want := []float32{2, 2, 2, 2, 2, 2, 2}; err != nil || !slices.Equal(delta[:7], want) || d != (apps.Delivery{Steps: 4, Loss: 3, Losses: 4}) {
		t.Errorf("%+v, %v: %v", d, delta, err)
	}
	if o := <-orders; o.Replica != 1 || o.First != 10 || o.Steps != 5 {
		t.Errorf("order %+v", o)
	}
	names, file, err := Initial(t.Context(), b.store)
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Fatal(names, err)
	}
	_ = file.Close()
}

func TestHelloThatDoesNotSuitTheJobIsRefused(t *testing.T) {
	half := 0.5
	for want, change := range map[string]func(*message){
		"the script says every=7 and the job file 5":                                                           func(m *message) { m.Every = 7 },
		"the script says rate=0.5 and the job file 0.7":                                                        func(m *message) { m.Rate = 0.5 },
		"the script says momentum=0.5 and the job file 0.9":                                                    func(m *message) { m.Momentum = &half },
		"the script says transport=int8 and the job file float32":                                              func(m *message) { m.Transport = "int8" },
		"asks for steps(60) and the job file has progress: {of: 50}":                                           func(m *message) { m.Total = 60 },
		"speaks version 1 of the protocol and this agent 2":                                                    func(m *message) { m.Version = 1 },
		"has 12 parameters and float buffers, and the job file's tiers.parameters is 10: write parameters: 12": func(m *message) { m.Tensors[0].Shape = []int{3, 3} },
		"no floating-point parameters":                                                                         func(m *message) { m.Tensors = nil },
		`tensor "a" has the shape [-1 2]`:                                                                      func(m *message) { m.Tensors[0].Shape[0] = -1 },
		`tensor "a" has the shape [1099511627776 1099511627776]`:                                               func(m *message) { m.Tensors[0].Shape = []int{1 << 40, 1 << 40} },
		"has no digest": func(m *message) { m.Digest = "" },
		"first message is \"pull\" and should be hello": func(m *message) { m.Type = typePull },
	} {
		b := newBench(t, nil)
		f := b.dial()
		if bye := f.greet(helloOf(change)); bye.Type != typeBye || !strings.Contains(bye.Why, want) {
			t.Errorf("%s: %+v", want, bye)
		}
		if why := b.failure(); !strings.Contains(why, want) {
			t.Errorf("failed by %s, not %s", why, want)
		}
	}
}

// All machines, including those after --resume, have the first one's model.
func TestModelsThatDifferAreRefused(t *testing.T) {
	for want, change := range map[string]func(*message){
		"tensor 2 is c float32[3] on this machine and b float32[3] on the first":     func(m *message) { m.Tensors[1].Name = "c" },
		"tensor 1 is a float64[2 2] on this machine and a float32[2 2] on the first": func(m *message) { m.Tensors[0].Type = "float64" },
		"tensor 1 is a float32[4] on this machine and a float32[2 2] on the first":   func(m *message) { m.Tensors[0].Shape = []int{4} },
		"ends before tensor b of [3]": func(m *message) { m.Tensors = m.Tensors[:1] },
		"has tensor c of [1]":         func(m *message) { m.Tensors = append(m.Tensors, Tensor{"c", "float32", []int{1}}) },
		"begins with other values":    func(m *message) { m.Digest = strings.Repeat("1", 64) },
	} {
		first := newBench(t, nil)
		f := first.dial()
		f.greet(helloOf(nil))
		go f.send(message{Type: typePull})
		if _, err := first.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, func(c *Config) { c.Store = first.store })
		if bye := b.dial().greet(helloOf(change)); bye.Type != typeBye || !strings.Contains(bye.Why, want) {
			t.Errorf("%s: %+v", want, bye)
		}
		if why := b.failure(); !strings.Contains(why, want) {
			t.Error(why)
		}
	}
}

// A program that breaks the protocol ends; the agent survives, and with retries another attempt does the round.
func TestProgramsThatMisbehaveAreReplaced(t *testing.T) {
	for want, misbehave := range map[string]func(f *fake, o message){
		"closed the socket within a message":     func(f *fake, _ message) { _, _ = f.conn.Write([]byte(`{"type":`)); _ = f.conn.Close() },
		"a message of more than 65536 bytes":     func(f *fake, _ message) { go f.conn.Write(make([]byte, 1<<20)) },
		"which is no message":                    func(f *fake, _ message) { _, _ = f.conn.Write([]byte("garbage\n")) },
		"pushed round 9 (order 1) and was given": func(f *fake, o message) { o.Round = 9; f.push(o, 1) },
		"pushed round 1 (order 7) and was given": func(f *fake, o message) { o.Number = 7; f.push(o, 1) },
		"pushed 6 steps of a round of 5":         func(f *fake, o message) { f.push(o, 6) },
		"requested another round within one":     func(f *fake, _ message) { f.send(message{Type: typePull}) },
		"which it may not now":                   func(f *fake, _ message) { f.send(helloOf(nil)) },
		"the program ended with exit code 1":     nil,
	} {
		for _, retries := range []int{0, 1} {
			b := newBench(t, func(c *Config) { c.Retries = retries })
			f := b.dial()
			f.greet(helloOf(nil))
			f.send(message{Type: typePull})
			var again sync.WaitGroup
			again.Go(func() {
				o := f.receive()
				if misbehave != nil {
					misbehave(f, o)
				} else {
					_ = f.conn.Close()
					b.Ended(program.Exited{Of: program.Of{Attempt: 1}, Code: 1, Phase: program.Running, Tail: "Traceback\nValueError: no"})
				}
				if retries > 0 {
					second := b.dial()
					if w := second.greet(helloOf(nil)); w.Initial != "" {
						t.Error("the model is kept already")
					}
					second.round(5)
				}
			})
			_, delta, err := b.Round(t.Context(), order(1), ones)
			again.Wait()
			if retries > 0 {
				if err != nil || delta[0] != 2 {
					t.Errorf("%s: %v %v", want, delta, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
			if why := b.failure(); !strings.Contains(why, want) {
				t.Error(why)
			}
		}
	}
}

func TestSecondContextIsRefused(t *testing.T) {
	b := newBench(t, nil)
	f := b.dial()
	f.greet(helloOf(nil))
	second := dial(t, filepath.Join(b.dir, "s"))
	if bye := second.greet(helloOf(nil)); !strings.Contains(bye.Why, "has a tierml.DiLoCo context already") {
		t.Errorf("%+v", bye)
	}
	go f.round(5)
	if _, _, err := b.Round(t.Context(), order(1), ones); err != nil {
		t.Error(err)
	}
}

// NaN never reaches the servers. Three rounds in which no replica delivers end the run; as long as others deliver, the rows change.
func TestNaNNeverReachesServers(t *testing.T) {
	b := newBench(t, nil)
	f := b.dial()
	f.greet(helloOf(nil))
	go func() {
		for clock := 1; ; clock++ {
			f.send(message{Type: typePull})
			o := f.receive()
			if o.Type != typeRound {
				return
			}
			copy(f.delta, []float32{0, 0, 0, 0, 0, float32(math.Inf(1)), 0})
			f.push(o, 5)
		}
	}()
	for round := range 5 { // others deliver
		d, _, err := b.Round(t.Context(), order(1), func(to []float32) { to[0] = float32(round) })
		if err != nil || d.Steps != 0 {
			t.Fatalf("round %d: %+v %v", round, d, err)
		}
	}
	var err error
	for range 2 {
		_, _, err = b.Round(t.Context(), order(1), func(to []float32) { to[0] = 4 })
	}
	if err == nil || !strings.Contains(err.Error(), "tensor b became +Inf") || !strings.Contains(err.Error(), "for 3 rounds no replica") {
		t.Errorf("after three rounds without change: %v", err)
	}
}

func TestProgramWithoutHelloIsGivenUp(t *testing.T) {
	b := newBench(t, func(c *Config) { c.HelloWithin = time.Millisecond })
	if why := b.failure(); !strings.Contains(why, "has not entered `with tierml.DiLoCo(...)`") {
		t.Error(why)
	}
}

// A round that takes ten times as long as those before is given up.
func TestRoundThatHangsIsGivenUp(t *testing.T) {
	b := newBench(t, func(c *Config) { c.StuckAfter = 300 * time.Millisecond })
	f := b.dial()
	f.greet(helloOf(nil))
	go func() {
		for range 4 {
			f.round(5)
		}
		f.send(message{Type: typePull})
		f.receive()
	}()
	for range 4 {
		if _, _, err := b.Round(t.Context(), order(1), ones); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := b.Round(t.Context(), order(1), ones)
	if err == nil || !strings.Contains(err.Error(), "is taken for stuck") {
		t.Error(err)
	}
}

// What a program still delivers for an aborted round is not counted in the next one.
func TestBrokenOffRoundCountsForNothing(t *testing.T) {
	b := newBench(t, nil)
	f := b.dial()
	f.greet(helloOf(nil))
	f.send(message{Type: typePull})
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan message)
	go func() { begun <- f.receive(); cancel() }()
	broken := make(chan error)
	go func() {
		_, _, err := b.Round(ctx, order(1), ones)
		broken <- err
	}()
	o := <-begun
	if err := <-broken; err == nil {
		t.Fatal("it is not broken off")
	}
	if f.words[0] != wordLeave {
		t.Errorf("word %d", f.words[0])
	}
	go func() {
		for i := range f.delta {
			f.delta[i] = 99
		}
		f.push(o, 1)
		f.round(5)
	}()
	_, delta, err := b.Round(t.Context(), order(2), ones)
	if err != nil || delta[0] != 2 {
		t.Errorf("%v: %v", delta, err)
	}
}

// A notice ends the round in progress, and later ones after their first step; not in deterministic jobs.
func TestNoticeEndsTheRound(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		b := newBench(t, func(c *Config) { c.Terms.Deterministic = deterministic })
		f := b.dial()
		f.greet(helloOf(nil))
		go func() {
			f.send(message{Type: typePull})
			o := f.receive()
			b.Hurry(true)
			steps := 5
			if f.words[0] == wordDeliver {
				steps = 1
			}
			f.push(o, steps)
			f.send(message{Type: typePull})
			f.push(f.receive(), 1+4*int(1-f.words[0]))
		}()
		want := 1
		if deterministic {
			want = 5
		}
		for round := range 2 {
			if d, _, err := b.Round(t.Context(), order(1), ones); err != nil || d.Steps != want {
				t.Errorf("deterministic %v, round %d: %d steps, want %d: %v", deterministic, round, d.Steps, want, err)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		e       program.Exited
		entered bool
		want    string
	}{
		{program.Exited{Code: 1, Phase: program.Running, Tail: "Traceback:\n  x\nValueError: bad"}, true, "the program ended with exit code 1: Traceback:\n  x\nValueError: bad"},
		{program.Exited{Phase: program.Running}, true, "exit code 0 before all steps were done"},
		{program.Exited{Phase: program.Running}, false, "exit code 0 and never entered `with tierml.DiLoCo(...)`"},
		{program.Exited{Code: 137, Signal: "killed", Phase: program.Running, Note: "memory"}, true, "exit code 137 (killed); memory"},
		{program.Exited{Code: 2, Phase: program.SettingUp, Note: "setup failed"}, false, "the program could not start (setup); setup failed"},
	} {
		if got := describe(c.e, c.entered); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The program has the memory open: it must not be able to shrink it under the agent.
func TestMemoryKeepsItsSize(t *testing.T) {
	m, err := newMemory(100, 64, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if err := m.file.Truncate(10); err == nil && runtime.GOOS == "linux" {
		t.Error("it was made shorter")
	}
	if _, delta := m.areas(); len(delta) != 130 || m.bytes() != align+4*130 {
		t.Error(len(delta), m.bytes())
	}
}

// Where the system has no shared memory, or a policy forbids it, a file replaces it, with one warning; if there is no space for the file
// either, the message says what to do.
func TestMemoryOnDisk(t *testing.T) {
	unnamed = func(int64) (*os.File, error) { return nil, syscall.EACCES }
	t.Cleanup(func() { unnamed = inMemory })
	var log lines
	b := newBench(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	f := b.dial()
	f.greet(helloOf(nil))
	go func() {
		for range 2 {
			f.round(5)
		}
	}()
	for range 2 {
		if _, delta, err := b.Round(t.Context(), order(1), ones); err != nil || delta[6] != 2 {
			t.Fatal(delta, err)
		}
	}
	if text := log.String(); strings.Count(text, "permission denied") != 1 || !strings.Contains(text, os.TempDir()) {
		t.Errorf("it warns\n%s", text)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := newMemory(7, 64, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Error(err)
	}
}
