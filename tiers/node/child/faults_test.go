package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/python/pythontest"
)

// bare speaks python/wire.md in plain Python. The first attempt executes FAULT within its round.
const bare = `
import array, ctypes, json, mmap, os, signal, socket, time
if os.environ["TIERML_ATTEMPT"] == "1": exec(os.environ.get("FIRST", ""))
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["TIERML_TIERS"])
def send(**m): s.sendall(json.dumps(m).encode() + b"\n")
def receive():
    line = b""
    while not line.endswith(b"\n"):
        part, files, _, _ = socket.recv_fds(s, 1, 1)
        if not part: raise SystemExit("the agent is gone")
        line += part
        fds.extend(files)
    return json.loads(line)
fds = []
send(type="hello", version=2, tensors=[{"name": "a", "type": "float32", "shape": [7]}], digest="0" * 64)
welcome = receive()
memory = mmap.mmap(fds[0], welcome["bytes"])
if os.environ["TIERML_ATTEMPT"] == "1": exec(os.environ.get("SECOND", ""))
if welcome.get("initial"): open(welcome["initial"], "wb").write(b"a model")
while True:
    send(type="pull")
    order = receive()
    if order["type"] != "round": break
    if os.environ["TIERML_ATTEMPT"] == "1": exec(os.environ["FAULT"])
    rows = array.array("f", memory[4096:4096 + 28])
    memory[65536:65536 + 28] = array.array("f", [2 * x for x in rows]).tobytes()
    send(type="push", round=order["round"], number=order["number"], steps=order["steps"], loss=1.0, losses=1)
`

// Whatever happens to a real process within a round, the reason is recorded, nothing of it is left, and the next attempt on the machine
// does the round.
func TestProcessesThatFailAreReplaced(t *testing.T) {
	python := pythontest.Interpreter(t)
	script := filepath.Join(t.TempDir(), "bare.py")
	if err := os.WriteFile(script, []byte(bare), 0o600); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{"no context": "raise SystemExit", "no hello": "time.sleep(1000)"}         // what the first attempt does instead of a hello
	welcomed := map[string]string{"no pull": "send(type='bye')\nraise ValueError('not as the job says')"} // what it does instead of a pull
	for name, c := range map[string]struct{ fault, want string }{
		"exception":     {"raise ValueError('no good')", "ValueError: no good"},
		"exit":          {"os._exit(0)", "exit code 0 before all steps were done"},
		"memory":        {"os.kill(os.getpid(), signal.SIGKILL)", "often the system, when memory runs out"},
		"beyond":        {"ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 0, 1 << 40)", "exit code 139"},
		"shorter":       {"os.ftruncate(fds[0], 10)", "PermissionError"},
		"fork":          {"os.fork() or time.sleep(1000)\nos._exit(3)", "exit code 3"},
		"two of them":   {"os.fork() == 0 and time.sleep(0.1)\nsend(type='push', round=order['round'], number=order['number'], steps=0)\ntime.sleep(1000)", ""},
		"daemon":        {"os.fork() or (os.setsid(), time.sleep(1000))\nos._exit(4)", "exit code 4"},
		"closed socket": {"s.shutdown(socket.SHUT_RDWR)\ns.close()\ntime.sleep(1000)", "closed its socket within a round"},
		"no context":    {"", "exit code 0 and never entered `with tierml.DiLoCo(...)`"},
		"no hello":      {"", "has run for 3 s and has not entered `with tierml.DiLoCo(...)`"},
		"no pull":       {"", "ValueError: not as the job says"},
		"hang":          {"order['first'] == 15 and time.sleep(1000)", "is taken for stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lines
			var child *Child
			ready := make(chan struct{})
			home := t.TempDir()
			machine, err := program.New(program.Config{
				Spec: program.Spec{Run: "exec " + python + " " + script, Envs: map[string]string{"FIRST": before[name], "SECOND": welcomed[name], "FAULT": c.fault, "MARK": home}, Store: t.TempDir()}, Dir: home, Log: slog.New(slog.DiscardHandler),
				Report: func(e program.Event) {
					if exited, is := e.(program.Exited); is {
						<-ready
						child.Ended(exited)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer machine.Close()
			b := newBench(t, func(cfg *Config) {
				cfg.Retries, cfg.HelloWithin, cfg.Log = 1, 20*time.Second, slog.New(slog.NewTextHandler(&log, nil))
				switch name { // a slow machine may need several attempts
				case "no hello":
					cfg.Retries, cfg.HelloWithin = 100, 3*time.Second
				case "hang":
					cfg.Retries, cfg.StuckAfter = 100, time.Second
				}
				cfg.Start = func(attempt uint64, env map[string]string) error {
					return machine.Start(program.Start{Attempt: attempt, Key: "m", Ranks: 1, Settings: env})
				}
			})
			child = b.Child
			close(ready)
			at := order(1)
			for name == "hang" && at.First < 15 { // a round is late compared with those before it
				if _, _, err := b.Round(t.Context(), at, ones); err != nil {
					t.Fatal(err)
				}
				at.First += 5
			}
			d, delta, err := b.Round(t.Context(), at, ones)
			if c.want == "" { // it has pushed, once: that counts, and its end shows in the next round
				if err != nil || d.Steps != 0 {
					t.Fatalf("%+v, %v", d, err)
				}
				d, delta, err = b.Round(t.Context(), order(2), ones)
				c.want = "pushed a round that it was not given"
			}
			if err != nil || d.Steps != 5 || delta[6] != 2 {
				t.Fatalf("%+v, %v, %v", d, delta, err)
			}
			machine.Stop(0, false)
			machine.Close()
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("no %q in\n%s", c.want, log.String())
			}
			if left, _ := exec.Command("grep", "-lsz", "^MARK="+home, "-r", "/proc", "--include=environ").Output(); len(strings.Fields(string(left))) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// lines are a log that can be read while others write to it.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A notice may come at any moment: each round that begins or ends after it ends with its first step.
func TestNoticeAtEachMoment(t *testing.T) {
	for at, moment := range []string{"before hello", "before the first pull", "between rounds", "within a round", "after the push"} {
		t.Run(moment, func(t *testing.T) {
			b := newBench(t, nil)
			notice := func(now int) {
				if now == at {
					b.Hurry(true)
				}
			}
			f := b.dial()
			notice(0)
			f.greet(helloOf(nil))
			notice(1)
			words := make(chan uint32, 2)
			go func() {
				f.send(message{Type: typePull})
				for range 2 {
					o := f.receive()
					notice(3)
					words <- f.words[0]
					f.push(o, 1)
					notice(4)
					f.send(message{Type: typePull})
				}
			}()
			if at == 2 {
				if _, err := b.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				notice(2)
			}
			for range 2 {
				if d, _, err := b.Round(t.Context(), order(1), ones); err != nil || d.Steps != 1 {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			if first, second := <-words, <-words; at < 4 && first != wordDeliver || second != wordDeliver {
				t.Errorf("words %d and %d", first, second)
			}
		})
	}
}

// In random worlds programs misbehave in all ways, and roll-backs abort rounds. Each round counts once or not at all, with exactly what was
// computed for it, and when programs behave again all rounds are done. TIERML_SEEDS is the number of worlds.
func TestRandomPrograms(t *testing.T) {
	worlds := 30
	if n, err := strconv.Atoi(os.Getenv("TIERML_SEEDS")); err == nil {
		worlds = n
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomPrograms(t, uint64(seed)) })
	}
}

func randomPrograms(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 41))
	var calm sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); calm.Wait() }) // once the child has ended
	b := newBench(t, func(c *Config) {
		c.Retries, c.StuckAfter, c.HelloWithin = math.MaxInt, 200*time.Millisecond, 200*time.Millisecond
	})
	const rounds = 12
	ctx := t.Context()
	behave := func() bool { return r.IntN(3) > 0 } // used only by the programs' goroutine
	calm.Go(func() {
		for attempt := uint64(1); ; attempt++ {
			select {
			case place := <-b.place:
				b.misbehave(t, place, attempt, r, behave)
			case <-stop:
				return
			}
		}
	})
	world := rand.New(rand.NewPCG(seed, 42))
	for id := 1; id <= rounds; id++ {
		tries := 0
		for done := false; !done; tries++ {
			if tries > 400 {
				t.Fatalf("round %d is not done", id)
			}
			mark := float32(id*1000 + tries)
			within, cancel := ctx, func() {}
			if world.IntN(4) == 0 {
				within, cancel = context.WithTimeout(ctx, time.Duration(world.IntN(3000))*time.Microsecond)
			}
			if world.IntN(6) == 0 {
				b.Hurry(false)
			}
			o := apps.Order{Clock: 1, Replica: 1, First: 5 * (id - 1), Steps: 5}
			d, delta, err := b.Round(within, o, func(to []float32) {
				for i := range to {
					to[i] = mark
				}
			})
			cancel()
			switch {
			case err != nil && within.Err() == nil:
				t.Fatalf("round %d: %v", id, err)
			case err != nil || d.Steps == 0:
				continue // it counts for nothing
			}
			for i, x := range delta[:7] {
				if x != 2*mark || d.Loss != float64(mark) || d.Steps > o.Steps {
					t.Fatalf("round %d, try %d: float %d of its delta is %v and its loss %v, of %v", id, tries, i, x, d.Loss, mark)
				}
			}
			done = true
		}
	}
}

// misbehave plays an attempt until it has done something wrong.
func (b *bench) misbehave(t *testing.T, place string, attempt uint64, r *rand.Rand, behave func() bool) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: place, Net: "unix"})
	if err != nil {
		return // the child has ended
	}
	f := &fake{t: t, conn: conn}
	code := 1
	defer func() {
		_ = f.conn.Close()
		b.Ended(program.Exited{Of: program.Of{Attempt: attempt}, Code: code, Phase: program.Running})
	}()
	if !behave() && r.IntN(3) == 0 {
		f.send(helloOf(func(m *message) { m.Version = 9 }))
		return
	}
	if f.greet(helloOf(nil)).Type != typeWelcome {
		return
	}
	for {
		f.send(message{Type: typePull})
		o := f.receive()
		if o.Type != typeRound {
			return
		}
		mark := f.rows[0]
		for i := range f.delta {
			f.delta[i] = 2 * mark
		}
		o.Loss = float64(mark)
		push := func(steps int) {
			f.send(message{Type: typePush, Round: o.Round, Number: o.Number, Steps: steps, Loss: float64(mark), Losses: 1})
		}
		time.Sleep(time.Duration(r.IntN(1500)) * time.Microsecond) // it may be aborted meanwhile
		if behave() {
			push(1 + r.IntN(5))
			continue
		}
		stale := func() { // what it computed for another order
			for i := range f.delta {
				f.delta[i] = mark
			}
			push(5)
		}
		switch r.IntN(11) {
		case 0:
			_, _ = f.conn.Write([]byte(`{"type":`))
			return
		case 1:
			_, _ = f.conn.Write([]byte("garbage\n"))
			return
		case 2:
			o.Round = 9
			stale()
			return
		case 3:
			o.Number += uint64(1 + r.IntN(3))
			stale()
			return
		case 4:
			push(6)
			return
		case 5:
			push(5)
			push(5) // again
			return
		case 6:
			f.send(message{Type: typePull})
			return
		case 7:
			f.delta[3] = float32(math.NaN())
			push(5)
		case 8:
			code = 0
			return // in mid-round
		case 9:
			o.Number--
			stale()
			return
		case 10:
			if second, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: place, Net: "unix"}); err == nil {
				(&fake{t: t, conn: second}).send(helloOf(nil))
				defer second.Close()
			}
			f.words[0] = 7
			push(5)
		}
	}
}

// A killed agent leaves its socket where it disappears with the machine: in its home, unless the path is too long for a socket.
func TestSocketIsInTheHome(t *testing.T) {
	home := t.TempDir()
	long := filepath.Join(home, strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{home: home, long: os.TempDir(), filepath.Join(home, "none"): os.TempDir()} {
		t.Setenv("HOME", name)
		c, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(c.dir) != want {
			t.Errorf("with HOME=%s it is in %s", name, c.dir)
		}
		if err := errors.Join(c.listen.Close(), os.RemoveAll(c.dir)); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(long, "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
