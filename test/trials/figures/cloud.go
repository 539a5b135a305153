package figures

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers/node"
)

// cloud sells the hosts of a network: an instance is a process in a host's namespace.
type cloud struct {
	flops float64
	begun string // load.begun
	pulls int    // envPulls
	log   *os.File
	provisioner.Basic

	mu      sync.Mutex
	free    []int // hosts
	made    map[provisioner.InstanceID]*machine
	order   []provisioner.InstanceID
	answers map[string][]provisioner.Instance // by token
	notices chan provisioner.Notice
	waits   sync.WaitGroup
}

type machine struct {
	instance provisioner.Instance
	host     int
	cmd      *exec.Cmd
}

func newCloud(n *network, flops float64, begun string, log *os.File) *cloud {
	c := &cloud{flops: flops, begun: begun, log: log, made: map[provisioner.InstanceID]*machine{},
		answers: map[string][]provisioner.Instance{}, notices: make(chan provisioner.Notice, 1024)}
	for i := range n.hosts {
		c.free = append(c.free, i)
	}
	return c
}

func (c *cloud) Traits() provisioner.Traits {
	return provisioner.Traits{Provider: "ec2", MaxBid: true, NoticeLength: 2 * time.Minute}
}

func (c *cloud) Launch(_ context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.answers[r.Token]; got != nil {
		return got, nil
	}
	if len(c.free) < r.Count {
		return nil, provisioner.ErrNoCapacity
	}
	user, err := node.DecodeUserData(r.UserData)
	if err != nil {
		return nil, err
	}
	var got []provisioner.Instance
	for range r.Count {
		m, err := c.start(r, user)
		if err != nil {
			return got, err
		}
		got = append(got, m.instance)
	}
	c.answers[r.Token] = got
	return got, nil
}

func (c *cloud) start(r provisioner.Request, user node.UserData) (*machine, error) {
	m := &machine{host: c.free[0]}
	c.free = c.free[1:]
	m.instance = provisioner.Instance{
		ID: provisioner.InstanceID(fmt.Sprintf("i-%04d", len(c.order)+1)), Pool: r.Pool, Bid: r.Bid, Token: r.Token,
		State: provisioner.Running, Launched: time.Now().UTC().Truncate(time.Second),
	}
	user.Listen = hostAddress(m.host) + ":0"
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m.cmd = exec.Command("ip", "netns", "exec", hostName(m.host), self, Agent)
	m.cmd.Env = append(os.Environ(), envInstance+"="+string(m.instance.ID), envUserData+"="+user.Encode(),
		envFlops+"="+strconv.FormatFloat(c.flops, 'f', -1, 64), envBegun+"="+c.begun, envPulls+"="+strconv.Itoa(c.pulls), "GOMAXPROCS=1", "GOGC=400")
	m.cmd.Stderr = c.log
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a machine: %w", err)
	}
	c.made[m.instance.ID] = m
	c.order = append(c.order, m.instance.ID)
	c.waits.Go(func() {
		_ = m.cmd.Wait() // however it ends
		c.gone(m)
	})
	return m, nil
}

func (c *cloud) gone(m *machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.instance.State, m.instance.Ended = provisioner.Terminated, time.Now().UTC().Truncate(time.Second)
	if m.instance.EndedBy == market.Running {
		m.instance.EndedBy, m.instance.Reason = market.ByProvider, "the process ended"
	}
	c.free = append(c.free, m.host)
	c.notices <- provisioner.Notice{Kind: provisioner.Ended, ID: m.instance.ID, Instance: m.instance}
}

func (c *cloud) Terminate(_ context.Context, ids ...provisioner.InstanceID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if m := c.made[id]; m != nil && m.instance.State == provisioner.Running {
			m.instance.EndedBy, m.instance.Reason = market.ByUser, "terminated"
			_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	}
	return nil
}

func (c *cloud) List(context.Context) ([]provisioner.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []provisioner.Instance
	for _, id := range c.order {
		list = append(list, c.made[id].instance)
	}
	return list, nil
}

func (c *cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	for {
		select {
		case n := <-c.notices:
			f(n)
		case <-ctx.Done():
			return nil
		}
	}
}

// SpotPrices never change here.
func (c *cloud) SpotPrices(context.Context, []market.Pool, time.Time, time.Time) (map[market.Pool][]market.PricePoint, error) {
	return nil, nil
}

// evict takes all transient machines back, with a warning.
func (c *cloud) evict(warning time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.order {
		m := c.made[id]
		if m.instance.State != provisioner.Running || m.instance.Pool.Class != market.Spot {
			continue
		}
		c.notices <- provisioner.Notice{Kind: provisioner.Eviction, ID: id, Deadline: time.Now().Add(warning)}
		c.waits.Go(func() {
			time.Sleep(warning)
			_ = m.cmd.Process.Kill() // it may have left by then
		})
	}
}

// ticks is how much processor time the machines that run have used.
func (c *cloud) ticks() (sum float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.made {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // its name may hold blanks
		fields := strings.Fields(rest)
		const user, system = 11, 12
		if len(fields) > system {
			u, _ := strconv.ParseFloat(fields[user], 64)
			s, _ := strconv.ParseFloat(fields[system], 64)
			sum += u + s
		}
	}
	return sum
}

// end kills whatever is left and waits for it.
func (c *cloud) end() {
	c.mu.Lock()
	for _, m := range c.made {
		_ = m.cmd.Process.Kill() // it may have ended
	}
	c.mu.Unlock()
	c.waits.Wait()
}
