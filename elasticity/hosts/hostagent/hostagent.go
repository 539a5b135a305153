// Package hostagent runs on a shared host. Agent starts a process for each slot, the same that runs on a job's own machine, and ends it
// with its slot; Slot replaces the machine's metadata service for that process.
//
// Each process has a directory, a share of the declared compute rate, a memory limit, and if the kernel allows it its own namespaces. If
// the agent is root, a process runs as the job's owner, or as a user of its own (Config.Users); otherwise all run as the agent's user.
//
// The package decides nothing: the desk determines the slots.
package hostagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/kin"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// UserData is the user data of a host.
type UserData struct {
	Desk   string `json:"desk"` // host:port
	Launch string `json:"launch"`
	Orphan int    `json:"orphan"` // seconds of wall-clock time without the desk after which a host without slots ends

	// With TLS, the token is used once, to get a certificate of this authority, identified by its hash; without, all calls have the key.
	Authority string `json:"authority,omitempty"`
	Token     string `json:"token,omitempty"`
	Key       string `json:"key,omitempty"`
}

// envelope distinguishes a host's user data from a node's.
type envelope struct {
	Host *UserData `json:"shared_host"`
}

// Encode returns the form that Decode reads.
func (u UserData) Encode() string {
	text, err := json.Marshal(envelope{&u})
	if err != nil {
		panic(err) // strings and a number can always be marshalled
	}
	return string(text)
}

// Decode reads a machine's user data; false: it is not a shared host's.
func Decode(text string) (UserData, bool) {
	var e envelope
	if json.Unmarshal([]byte(node.InScript(text)), &e) != nil || e.Host == nil {
		return UserData{}, false
	}
	return *e.Host, true
}

// Config configures an Agent. Fields up to Log are required.
type Config struct {
	ID      string // of the host
	Host    UserData
	Command []string // run by each slot
	Home    string   // parent of the slots' directories; other users' slots have theirs among the system's temporary files
	Env     []string // of all slots
	Log     *slog.Logger

	Flops   float64 // of the whole host; 0 = unlimited
	Users   int     // the first of a range of user ids for slots, each used once, who may traverse Home; 0 = slots run as the agent
	KeyFile string  // like a node's
	// Watch passes on the provider's warnings, as a node.Machine does; nil = only the desk warns.
	Watch func(context.Context, func(tiers.Warned)) error
	// EndsWarned: a warned host ends once its slots have, instead of staying until it is killed.
	EndsWarned bool
	// PutOff postpones the time at which the machine powers itself off. It is called every minute while the desk is reachable; nil = there
	// is none.
	PutOff func(context.Context) error
}

const (
	grace    = 9 * time.Second // from SIGTERM to SIGKILL; a fake cloud kills the host a second later
	callWith = 10 * time.Second
	lookIn   = 100 * time.Millisecond
	putOff   = time.Minute // interval

	processesPerVCPU = 1024 // of a slot, including threads, where they can be counted
)

// Environment variables of a slot's process.
const (
	EnvSlot  = "TIERML_SLOT"  // its directory
	envFlops = "TIERML_FLOPS" // as for an agent

	EnvDevices = "CUDA_VISIBLE_DEVICES" // numbers of its GPUs, if the host has some
)

// process is a slot's.
type process struct {
	group   int // its process group
	dir     string
	hold    *os.File // closed with this process, which ends the slot's process
	devices []string // numbers of GPUs
	leaving bool
	ended   chan struct{}
}

// agent is a host's process. One goroutine owns its state (follow).
//
// Invariant: a slot's process never runs without its agent, which holds the other end of the process's standard input (EndWithHost). So no
// process has to be found again: a starting agent has none, and starts one for each slot of the desk.
//
// The desk always sends all slots of the host, so that a lost answer costs nothing: missing ones are started, and surplus ones are stopped
// (obey). An end is reported until a call that had it is answered; that answer does not start the slot again, as it may predate the report
// (reported).
type agent struct {
	cfg     Config
	desk    *desk.Host
	open    string // parent of other users' slots' directories; empty = there are none yet
	users   int    // number of Config.Users that slots have used
	running map[provisioner.InstanceID]*process
	gone    map[provisioner.InstanceID]string // ended, and not reported
	warned  *tiers.Warned                     // the last warning; it is reported with each call
	over    chan end
	warns   chan tiers.Warned
	heard   atomic.Int64 // when the desk last answered, in Unix seconds
	waiting sync.WaitGroup
}

type end struct {
	slot provisioner.InstanceID
	why  string
}

// Run runs the slots of a host until ctx is done, or the desk has given the host up. No slot's process remains then.
func Run(ctx context.Context, cfg Config) error {
	a := &agent{cfg: cfg, running: map[provisioner.InstanceID]*process{}, gone: map[provisioner.InstanceID]string{}, over: make(chan end),
		warns: make(chan tiers.Warned)}
	beside, end := context.WithCancel(ctx)
	own, err := a.join(beside)
	if err == nil {
		a.desk = desk.NewHost(cfg.Host.Desk, cfg.Host.Key, cfg.Host.Launch, cfg.ID, own)
		defer a.desk.Close()
		a.accompany(beside)
		err = a.follow(ctx)
	}
	end()
	for _, p := range a.running {
		a.stop(p)
	}
	for len(a.running) > 0 {
		a.forget(<-a.over)
	}
	a.waiting.Wait()
	if a.open != "" {
		err = errors.Join(err, os.RemoveAll(a.open))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// join gets this host a certificate, and renews it until ctx is done; nil = no TLS.
func (a *agent) join(ctx context.Context) (*trust.Credential, error) {
	host := a.cfg.Host
	if host.Authority == "" {
		return nil, nil
	}
	j := trust.Joining{Address: host.Desk, Dial: trust.Dial, Authority: host.Authority, Token: host.Token, Machine: a.cfg.ID,
		KeyFile: a.cfg.KeyFile, Now: clock.Wall}
	patience, cancel := clock.WithPatience(ctx, a.orphan(), fmt.Errorf("no certificate from the desk for %d s", host.Orphan))
	defer cancel()
	own, err := j.Insist(patience, a.cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("joining the shared hosts: %w", err)
	}
	a.waiting.Go(func() { j.Keep(ctx, own, a.cfg.Log) })
	return own, nil
}

// accompany does a machine's other duties until ctx is done: it watches for warnings, and postpones its own end.
func (a *agent) accompany(ctx context.Context) {
	if a.cfg.Watch != nil {
		a.waiting.Go(func() {
			err := a.cfg.Watch(ctx, func(w tiers.Warned) {
				select {
				case a.warns <- w:
				case <-ctx.Done():
				}
			})
			if err != nil && ctx.Err() == nil {
				a.cfg.Log.Error("warnings of the provider come by the desk only", "err", err)
			}
		})
	}
	if a.cfg.PutOff == nil {
		return
	}
	a.waiting.Go(func() {
		ticker := time.NewTicker(putOff)
		defer ticker.Stop()
		for {
			if time.Since(time.Unix(a.heard.Load(), 0)) < putOff {
				if err := a.cfg.PutOff(ctx); err != nil && ctx.Err() == nil {
					a.cfg.Log.Error("this host will end by itself", "err", err)
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (a *agent) orphan() time.Duration { return time.Duration(a.cfg.Host.Orphan) * time.Second }

// answer is the result of a call.
type answer struct {
	orders desk.Orders
	sent   map[provisioner.InstanceID]string
	err    error
}

// follow does what the desk orders.
func (a *agent) follow(ctx context.Context) error {
	seen, heard := "", time.Now()
	for {
		calling, cancel := context.WithTimeout(ctx, callWith)
		answers := make(chan answer, 1)
		sent := a.report()
		said := desk.Said{Gone: sent, Warned: a.warned}
		a.waiting.Go(func() {
			orders, err := a.desk.Call(calling, said, seen)
			answers <- answer{orders, sent, err}
		})
		var got answer
		select {
		case e := <-a.over:
			a.forget(e)
			cancel()
			got = <-answers
		case w := <-a.warns:
			a.warn(w)
			cancel()
			got = <-answers
		case got = <-answers:
			cancel()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(got.err, desk.ErrGone), errors.Is(got.err, provisioner.ErrDenied):
			return got.err
		case errors.Is(got.err, context.Canceled): // because a process ended, which the next call reports
		case got.err != nil:
			if time.Since(heard) > a.orphan() && len(a.running) == 0 {
				return fmt.Errorf("no slots, and no desk for %d s: %w", a.cfg.Host.Orphan, got.err)
			}
			a.cfg.Log.Warn("the desk cannot be called; trying again", "err", got.err)
			if err := a.pause(ctx, time.Second); err != nil {
				return nil
			}
		default:
			heard, seen = time.Now(), got.orders.Seen
			a.heard.Store(heard.Unix())
			for slot := range got.sent {
				delete(a.gone, slot)
			}
			a.obey(got.orders, got.sent)
			if a.cfg.EndsWarned && said.Warned != nil && !said.Warned.Rebalance && len(got.orders.Slots)+len(a.running)+len(a.gone) == 0 {
				return nil
			}
		}
	}
}

// report returns a copy of the report to send.
func (a *agent) report() map[provisioner.InstanceID]string {
	sent := map[provisioner.InstanceID]string{}
	for slot, why := range a.gone {
		sent[slot] = why
	}
	return sent
}

// pause waits, and meanwhile handles ends.
func (a *agent) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case e := <-a.over:
			a.forget(e)
		case w := <-a.warns:
			a.warn(w)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// warn warns all slots of the host's end at once, whether or not the desk can be reached.
func (a *agent) warn(w tiers.Warned) {
	a.cfg.Log.Warn("the provider warns", "rebalance", w.Rebalance, "deadline", w.Deadline)
	if w.Rebalance && a.warned != nil {
		return
	}
	a.warned = &w
	for slot, p := range a.running {
		if w.Rebalance {
			break
		}
		if err := p.warn(w.Deadline); err != nil {
			a.cfg.Log.Error("a slot cannot be warned", "slot", slot, "err", err)
		}
	}
}

// forget handles the end of a process.
func (a *agent) forget(e end) {
	p := a.running[e.slot]
	_ = p.hold.Close() // it has no reader any more
	if err := os.RemoveAll(p.dir); err != nil {
		a.cfg.Log.Warn("a slot's directory cannot be removed", "slot", e.slot, "err", err)
	}
	delete(a.running, e.slot)
	a.gone[e.slot] = e.why
	if os.Getpid() == 1 {
		kin.Reap(func(pid int) bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(a.running)), func(p *process) bool { return p.group == -pid })
		})
	}
}

// obey starts and ends processes. What was reported in the same call has already ended.
func (a *agent) obey(orders desk.Orders, reported map[provisioner.InstanceID]string) {
	wanted := map[provisioner.InstanceID]bool{}
	for _, o := range orders.Slots {
		wanted[o.Slot] = true
		p := a.running[o.Slot]
		_, ended := a.gone[o.Slot]
		_, told := reported[o.Slot]
		switch {
		case p == nil && !ended && !told && o.Leaving:
			a.gone[o.Slot] = "it was never started"
		case p == nil && !ended && !told:
			if err := a.start(o, orders.Host); err != nil {
				a.cfg.Log.Error("a slot's process cannot be started", "slot", o.Slot, "job", o.Job, "err", err)
				a.gone[o.Slot] = "its process cannot be started: " + err.Error()
			}
		case p != nil && o.Leaving:
			a.stop(p)
		case p != nil && !o.Deadline.IsZero():
			if err := p.warn(o.Deadline); err != nil {
				a.cfg.Log.Error("a slot cannot be warned", "slot", o.Slot, "err", err)
			}
		}
	}
	for slot, p := range a.running {
		if !wanted[slot] {
			a.stop(p)
		}
	}
}

// start starts a slot's process.
func (a *agent) start(o desk.Order, host hosts.Size) error {
	own := a.cfg.Users > 0 && o.User == 0
	if own {
		o.User = a.cfg.Users + a.users
		a.users++
	}
	dir, err := a.directory(o)
	if err != nil {
		return err
	}
	tied, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer tied.Close() // the process has its own copy
	cmd := exec.Command(a.cfg.Command[0], a.cfg.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, tied, os.Stdout, os.Stderr
	if o.User != 0 {
		// Use a pipe: a process could reopen the file that is its output, and read other jobs' output.
		said := struct{ io.Writer }{os.Stdout}
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = said, said, 2*time.Second
	}
	memory := o.Size.MemoryMiB << 20
	cmd.Env = append(a.environment(), "HOME="+dir, "TMPDIR="+filepath.Join(dir, "tmp"), EnvSlot+"="+dir, fmt.Sprintf("GOMEMLIMIT=%d", memory/10*9))
	if a.cfg.Flops > 0 && host.VCPU > 0 {
		cmd.Env = append(cmd.Env, envFlops+"="+strconv.FormatFloat(a.cfg.Flops*float64(o.Size.VCPU)/float64(host.VCPU), 'f', -1, 64))
	}
	devices := a.devices(o.Size.GPUs, host.GPUs)
	if host.GPUs > 0 {
		cmd.Env = append(cmd.Env, EnvDevices+"="+strings.Join(devices, ","))
	}
	group, err := confine.Start(cmd, string(o.Slot), confine.Limits{Memory: memory, VCPU: o.Size.VCPU,
		Processes: processesPerVCPU * max(o.Size.VCPU, 1), User: o.User, Own: own, Dir: dir})
	if err != nil {
		return errors.Join(err, hold.Close())
	}
	if group.Flaw != nil {
		a.cfg.Log.Warn("a slot sees the processes of others", "slot", o.Slot, "err", group.Flaw)
	}
	a.cfg.Log.Info("a slot's process was started", "slot", o.Slot, "job", o.Job, "pid", cmd.Process.Pid, "cgroup", group.Together())
	p := &process{group: -cmd.Process.Pid, dir: dir, hold: hold, devices: devices, ended: make(chan struct{})}
	a.running[o.Slot] = p
	a.waiting.Go(func() {
		err := cmd.Wait()
		_ = syscall.Kill(p.group, syscall.SIGKILL) // whatever it has started ends with it
		why := "its process ended by itself"
		if err != nil {
			why = "its process ended: " + err.Error()
		}
		if group.OutOfMemory() {
			why += fmt.Sprintf(", as its slot's %d MiB were full", o.Size.MemoryMiB)
		}
		group.End()
		if !kin.End(p.dir) { // programs have their own sessions, and the slot ends only after they do
			why += "; some of what it had started cannot be killed"
		}
		close(p.ended)
		a.over <- end{o.Slot, why}
	})
	return nil
}

// devices returns the lowest numbers of unused GPUs. The desk's slots never exceed the host.
func (a *agent) devices(wanted, there int) (numbers []string) {
	for i := 0; i < there && len(numbers) < wanted; i++ {
		number := strconv.Itoa(i)
		taken := false
		for _, p := range a.running {
			taken = taken || slices.Contains(p.devices, number)
		}
		if !taken {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// directory makes a slot's directory, closed to others.
func (a *agent) directory(o desk.Order) (dir string, err error) {
	home := a.cfg.Home
	switch {
	case a.cfg.Users > 0:
		if err := os.Chmod(home, 0o711); err != nil { // can be traversed, not listed
			return "", err
		}
	case o.User != 0:
		if a.open == "" {
			if a.open, err = os.MkdirTemp("", "tierml-slots-"); err != nil {
				return "", err
			}
		}
		if err := os.Chmod(a.open, 0o711); err != nil { // can be traversed, not listed
			return "", err
		}
		home = a.open
	}
	dir = filepath.Join(home, string(o.Slot))
	temporary := filepath.Join(dir, "tmp")
	about, err := json.Marshal(about{Slot: o.Slot, Type: o.Type, UserData: o.UserData})
	if err == nil {
		err = os.MkdirAll(temporary, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, aboutFile), about, 0o644) // in a closed directory
	}
	if err == nil && o.User != 0 {
		err = errors.Join(os.Chown(temporary, o.User, o.User), os.Chown(dir, o.User, o.User),
			os.Chown(filepath.Join(dir, aboutFile), o.User, o.User))
	}
	return dir, err
}

// environment returns the environment of all slots, without the host's own secrets.
func (a *agent) environment() []string {
	env := append([]string{}, a.cfg.Env...)
	for _, name := range []string{"PATH", "LANG"} {
		if v, found := os.LookupEnv(name); found {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// stop terminates a process, and kills it if it does not end.
func (a *agent) stop(p *process) {
	if p.leaving {
		return
	}
	p.leaving = true
	_ = syscall.Kill(p.group, syscall.SIGTERM) // it may have ended
	a.waiting.Go(func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			_ = syscall.Kill(p.group, syscall.SIGKILL)
		}
	})
}
