package main

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
	"github.com/tierml/tierml/provisioner/adapter"
	"github.com/tierml/tierml/tiers/node"
)

// cloud sells the hosts of a network: an instance is a process in a host's namespace.
type cloud struct {
	provisioner.Cloud
	machines *adapter.Machines
	flops    float64
	begun    string // load.begun
	pulls    int    // envPulls
	log      *os.File
	waits    sync.WaitGroup

	free []int // hosts; guarded, like made, by the lock of machines
	made map[provisioner.InstanceID]*machine
}

type machine struct {
	host int
	cmd  *exec.Cmd
}

func newCloud(n *network, flops float64, begun string, log *os.File) *cloud {
	c := &cloud{flops: flops, begun: begun, log: log, made: map[provisioner.InstanceID]*machine{}}
	for i := range n.hosts {
		c.free = append(c.free, i)
	}
	c.machines = &adapter.Machines{Traits: provisioner.Traits{Provider: "ec2", MaxBid: true, NoticeLength: 2 * time.Minute}, Now: time.Now,
		Start: c.launch, End: func(id provisioner.InstanceID) error {
			_ = c.made[id].cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			return nil
		}}
	c.Cloud = c.machines.Cluster("figures")
	return c
}

func (c *cloud) launch(r provisioner.Request) (ids []provisioner.InstanceID, err error) {
	if len(c.free) < r.Count {
		return nil, provisioner.ErrNoCapacity
	}
	user, err := node.DecodeUserData(r.UserData)
	if err != nil {
		return nil, err
	}
	for range r.Count {
		id, err := c.start(user)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (c *cloud) start(user node.UserData) (provisioner.InstanceID, error) {
	m, id := &machine{host: c.free[0]}, provisioner.InstanceID(fmt.Sprintf("i-%04d", len(c.made)+1))
	user.Listen = hostAddress(m.host) + ":0"
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	m.cmd = exec.Command("ip", "netns", "exec", hostName(m.host), self, agent)
	m.cmd.Env = append(os.Environ(), envInstance+"="+string(id), envUserData+"="+user.Encode(),
		envFlops+"="+strconv.FormatFloat(c.flops, 'f', -1, 64), envBegun+"="+c.begun, envPulls+"="+strconv.Itoa(c.pulls), "GOMAXPROCS=1", "GOGC=400")
	m.cmd.Stderr = c.log
	if err := m.cmd.Start(); err != nil {
		return "", fmt.Errorf("starting a machine: %w", err)
	}
	c.free, c.made[id] = c.free[1:], m
	c.waits.Go(func() {
		_ = m.cmd.Wait() // however it ends
		c.each(func(one *adapter.Shown) {
			if one.ID == id {
				c.machines.Over(one, time.Now(), market.ByProvider, "the process ended")
			}
		})
		c.machines.Change(func() { c.free = append(c.free, m.host) })
	})
	return id, nil
}

// each changes machines that have not ended.
func (c *cloud) each(f func(*adapter.Shown)) {
	c.machines.Change(func() {
		for _, one := range c.machines.Live() {
			f(one)
		}
	})
}

// SpotPrices returns constant prices.
func (c *cloud) SpotPrices(context.Context, []market.Pool, time.Time, time.Time) (map[market.Pool][]market.PricePoint, error) {
	return nil, nil
}

// evict reclaims all transient machines, with a warning.
func (c *cloud) evict(warning time.Duration) {
	c.each(func(one *adapter.Shown) {
		if one.Pool.Class != market.Spot {
			return
		}
		one.Deadline = time.Now().Add(warning)
		process := c.made[one.ID].cmd.Process
		c.waits.Go(func() {
			time.Sleep(warning)
			_ = process.Kill() // it may have left by then
		})
	})
}

// ticks returns the processor time that the running machines have used.
func (c *cloud) ticks() (sum float64) {
	c.each(func(one *adapter.Shown) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.made[one.ID].cmd.Process.Pid))
		if err != nil {
			return // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // its name may contain blanks
		fields := strings.Fields(rest)
		const user, system = 11, 12
		if len(fields) > system {
			u, _ := strconv.ParseFloat(fields[user], 64)
			s, _ := strconv.ParseFloat(fields[system], 64)
			sum += u + s
		}
	})
	return sum
}

// end kills all remaining machines and waits for them.
func (c *cloud) end() {
	c.machines.Change(func() {
		for _, m := range c.made {
			_ = m.cmd.Process.Kill() // it may have ended
		}
	})
	c.waits.Wait()
}
