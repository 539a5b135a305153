package fakecloud

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/gcemeta"
	"github.com/tierml/tierml/fakecloud/internal/imds"
	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/kin"
	"github.com/tierml/tierml/internal/sameuser"
)

// machine is an instance that has booted: a process group and a metadata endpoint.
type machine struct {
	id       string
	kind     region.Type
	term     chan struct{} // closed: end the process
	kill     chan struct{} // closed: at once
	clock    string        // the mapping given to the machine
	endpoint string        // of the metadata; guarded by Cloud.mu
	home     string        // its HOME; likewise
}

// boot starts a machine in its own goroutine. c.mu must be held.
func (c *Cloud) boot(i region.Instance) {
	m := &machine{
		id: i.ID, kind: c.region.TypeOf(i), clock: c.config.Clock.String(), term: make(chan struct{}), kill: make(chan struct{}),
	}
	c.running[i.ID] = m
	c.machines.Go(func() { c.live(m) })
}

// halt requests the machine's end, at once if force. The cloud's lock must be held.
func (m *machine) halt(force bool) {
	closeOnce(m.term)
	if force {
		closeOnce(m.kill)
	}
}

func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// live is the life of a machine: metadata, process, and the report of its end.
func (c *Cloud) live(m *machine) {
	if err := c.work(m); err != nil {
		c.config.Log.Error("instance process", "instance", m.id, "error", err)
	}
	c.Do(func(r *region.Region, now time.Time) {
		delete(c.running, m.id)
		r.Gone(now, m.id)
	})
}

// work serves a machine's metadata while its command runs, to the cloud's own session: agents are in it, and the programs that they start never are.
func (c *Cloud) work(m *machine) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint := "http://" + listener.Addr().String()
	server := newServer(c.metadata(m))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(sameuser.SessionListener(listener, c.config.Log)); !errors.Is(err, http.ErrServerClosed) {
			c.config.Log.Error("metadata endpoint", "instance", m.id, "error", err)
		}
	}()
	defer func() {
		server.Close()
		<-served
	}()
	c.mu.Lock()
	m.endpoint = endpoint
	c.mu.Unlock()
	return c.process(m, endpoint)
}

// metadata speaks the provider's protocol.
func (c *Cloud) metadata(m *machine) http.Handler {
	if c.config.Provider == GCE {
		return gcemeta.New(c.look(m))
	}
	return imds.New(c.look(m), time.Now)
}

func (c *Cloud) look(m *machine) func() (region.Instance, region.Type) {
	return func() (i region.Instance, t region.Type) {
		c.Do(func(r *region.Region, now time.Time) { i, _ = r.Instance(now, m.id) })
		return i, m.kind
	}
}

// process runs the instance's command until it ends or is ended. It is its own process group: a signal from the terminal does not reach it,
// and its descendants end with it. It does not depend on the life of the cloud's process, like a machine does not depend on its provider's
// console.
func (c *Cloud) process(m *machine, endpoint string) error {
	home, remove, err := newHome(m.id, c.tag())
	if err != nil {
		return err
	}
	defer remove()
	c.mu.Lock()
	m.home = home
	cores := c.cores.take(m.kind.VCPU)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cores.release(cores)
	}()
	command := exec.Command(c.config.Command[0], c.config.Command[1:]...)
	command.Dir = c.config.Dir
	command.Env = c.environment(m, endpoint, home)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.config.LogDir != "" {
		log, err := os.OpenFile(filepath.Join(c.config.LogDir, m.id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		command.Stdout, command.Stderr = log, log
	}
	if err := startOn(cores, command); err != nil {
		return err
	}
	group := -command.Process.Pid
	ended := make(chan error, 1)
	go func() {
		ended <- command.Wait()
		close(ended)
	}()
	err = c.supervise(m, group, ended)
	// The rest of the group ends with the machine. The number cannot have been reused for another group in the instant since the leader was
	// waited for.
	syscall.Kill(group, syscall.SIGKILL)
	if !kin.End(home) { // programs have their own sessions, and the machine has not ended before them
		c.config.Log.Warn("processes of the instance cannot be killed", "instance", m.id)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		c.config.Log.Debug("instance process ended", "instance", m.id, "status", exit.String())
		return nil
	}
	return err
}

// supervise waits for the end of the process, and ends it on request.
func (c *Cloud) supervise(m *machine, group int, ended <-chan error) error {
	term, kill := m.term, m.kill
	var grace <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case <-term:
			term = nil
			syscall.Kill(group, syscall.SIGTERM)
			timer := time.NewTimer(c.config.Grace)
			defer timer.Stop()
			grace = timer.C
		case <-kill:
			kill = nil
			syscall.Kill(group, syscall.SIGKILL)
		case <-grace:
			syscall.Kill(group, syscall.SIGKILL)
		}
	}
}

// environment is small and clean: none of the cloud's own secrets or settings leaks into a machine. Its home is its own, as credentials are
// found there.
func (c *Cloud) environment(m *machine, endpoint, home string) []string {
	var env []string
	for _, name := range []string{"PATH", "LANG", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if c.config.Provider == GCE {
		env = append(env, "GCE_METADATA_HOST="+strings.TrimPrefix(endpoint, "http://"))
	} else {
		env = append(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+endpoint)
	}
	env = append(env, "HOME="+home, "TIERML_CLOCK="+m.clock)
	if m.kind.FLOPS > 0 { // otherwise it is as fast as this computer
		env = append(env, "TIERML_FLOPS="+strconv.FormatFloat(m.kind.FLOPS, 'f', -1, 64))
	}
	return append(env, c.config.Env...)
}
