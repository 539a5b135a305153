package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/sameuser"
)

// Times of a tunnel, in wall-clock time.
const (
	openWithin = time.Minute            // until the job server answers through a new tunnel
	lookEvery  = 150 * time.Millisecond // meanwhile
	healthy    = 20 * time.Second       // between two checks of an open one
	answerIn   = 10 * time.Second       // for a check
	unhealthy  = 3                      // failed checks after which it is reopened
	pauseAgain = 2 * time.Second        // before a broken tunnel is reopened
	endWithin  = 2 * time.Second        // for the command to end after a signal
)

// Tunnel is a command that connects a port of this host with the job server. While it is open the command is restarted when it ends, or
// when it passes no more traffic, as after a laptop's sleep.
type Tunnel struct {
	place Place
	local int
	http  *http.Client
	note  func(string) // shows the user what happens meanwhile

	cancel context.CancelFunc
	over   chan struct{}
}

// ErrMissing is a problem that waiting does not solve: a program that must be installed.
var ErrMissing = errors.New("a program is missing")

// OpenTunnel runs the command and waits until the job server answers. Note gets messages about a tunnel that breaks later.
func OpenTunnel(ctx context.Context, p Place, note func(string)) (*Tunnel, error) {
	command := p.TunnelCommand(0)
	if len(command) == 0 {
		return nil, fmt.Errorf("opening a tunnel to %s: provider %q is unknown; write controller.tunnel into the job file", p, p.Cloud)
	}
	if missing := p.Missing(command); len(missing) > 0 {
		return nil, fmt.Errorf("opening a tunnel to %s: %w: %s", p, ErrMissing, missing[0])
	}
	local, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("opening a tunnel to %s: %w", p, err)
	}
	t := &Tunnel{place: p, local: local, note: note, over: make(chan struct{}), http: tunnelClient()}
	first, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx)) // its holder closes it
	t.cancel = cancel
	go func() { defer close(t.over); t.keep(keeping, first) }()
	return t, nil
}

// tunnelClient checks whether a tunnel is open, each time by a new connection.
func tunnelClient() *http.Client {
	return &http.Client{Timeout: answerIn, Transport: &http.Transport{DisableKeepAlives: true, DialContext: sameuser.Dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// way returns the connection through the tunnel. Its near end is a process of this user: any other one took the port before it.
func (t *Tunnel) way() *Way { return &Way{Address: t.Address(), Close: t.Close, Dial: sameuser.Dial} }

// Address returns where the job server is reached meanwhile.
func (t *Tunnel) Address() string { return fmt.Sprintf("http://127.0.0.1:%d", t.local) }

// Close ends the command.
func (t *Tunnel) Close() {
	t.cancel()
	<-t.over
	t.http.CloseIdleConnections()
}

// freePort returns a port without a listener now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// open starts the command and waits for an answer.
func (t *Tunnel) open(ctx context.Context) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	c, err := start(t.place.TunnelCommand(t.local))
	if err != nil {
		return nil, fmt.Errorf("opening a tunnel to %s: %w", t.place, err)
	}
	for !t.answers(ctx) {
		select {
		case <-c.ended:
			return nil, fmt.Errorf("opening a tunnel to %s: %s has ended: %s\n%s", t.place, c.name(), c.words(), t.place.advice())
		case <-ctx.Done():
			c.end()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("the tunnel to %s is open, but nobody answers at its port %s; on that machine, `journalctl -u tierml-server -u tierml-controller` says "+
				"why; when it was started just now, try again in a minute", t.place, t.place.fill("{port}", 0)[0])
		case <-time.After(lookEvery):
		}
	}
	return c, nil
}

// answers reports whether a job server is at the other end. No token is sent for that.
func (t *Tunnel) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Address()+access.LoginPath, nil)
	if err != nil {
		return false
	}
	response, err := t.http.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // nothing of it is read
	return response.StatusCode == http.StatusOK
}

// keep restarts the command whenever it ends, until the context does.
func (t *Tunnel) keep(ctx context.Context, c *child) {
	for ctx.Err() == nil {
		t.watch(ctx, c)
		for broken := time.Now(); ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(pauseAgain):
			}
			next, err := t.open(ctx)
			if err == nil {
				t.note(fmt.Sprintf("The tunnel is open again after %s.", time.Since(broken).Round(time.Second)))
				c = next
				break
			}
		}
	}
}

// watch waits for a command to end. It ends one that passes no traffic, and any at the context's end.
func (t *Tunnel) watch(ctx context.Context, c *child) {
	defer c.end()
	for silent := 0; silent < unhealthy; {
		select {
		case <-ctx.Done():
			return
		case <-c.ended:
			if ctx.Err() == nil {
				t.note(fmt.Sprintf("The tunnel broke: %s; opening it again. The job continues.", c.words()))
			}
			return
		case <-time.After(healthy):
		}
		if silent++; t.answers(ctx) {
			silent = 0
		}
	}
	t.note("The tunnel is silent; opening it again. The job continues.")
}

// child is a running command, in its own process group: a Ctrl-C is for this program, which ends it in its own time.
type child struct {
	cmd   *exec.Cmd
	said  tail
	ended chan struct{}
	err   error // of its end, once it has ended
}

func start(command []string) (*child, error) {
	c := &child{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	c.cmd.SysProcAttr = apart()
	c.cmd.WaitDelay = endWithin     // its children may hold its output
	stdin, err := c.cmd.StdinPipe() // open as long as this process lives: session-manager-plugin ends when it is closed
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel signals this thread's death to the child (apart)
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			_ = stdin.Close() // Wait has
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// end ends the command and its descendants.
func (c *child) end() {
	group := -c.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // it may have ended
	select {
	case <-c.ended:
	case <-time.After(endWithin):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-c.ended
}

func (c *child) name() string { return strings.Join(c.cmd.Args[:min(3, len(c.cmd.Args))], " ") }

// words returns its last output, or how it ended.
func (c *child) words() string {
	if text := c.said.lines(4); text != "" {
		return text
	}
	if c.err != nil {
		return c.err.Error()
	}
	return "without a word"
}

// tail keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailLength = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = slices.Clone(t.text[max(0, len(t.text)-tailLength):])
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// lines returns the last lines, joined.
func (t *tail) lines(n int) string {
	var all []string
	for line := range strings.Lines(t.String()) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-n):], " / ")
}
