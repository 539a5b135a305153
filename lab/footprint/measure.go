package main

import (
	"fmt"
	"strings"
	"time"
)

// result is a shape's result, per process: bytes beyond those of a newly started process, and rates.
type result struct {
	owner, backup, worker float64 // bytes
	first, later          float64 // GB/s of cuts, for all owners together
	busy                  float64 // processor seconds per GB of cuts, for both sides together
	clock                 float64 // seconds
}

// cast has the processes of a shape.
type cast struct {
	shape                     shape
	owners, backups, workers  []*process
	everybody                 []*process
	began                     map[*process]float64
	firstBytes, laterBytes    float64
	firstSeconds, laterSecond float64
	cutBusy                   float64
}

func measure(s shape) (r result, err error) {
	c := &cast{shape: s, began: map[*process]float64{}}
	defer func() {
		for _, p := range c.everybody {
			p.end()
		}
	}()
	if err := c.gather(); err != nil {
		return r, err
	}
	began := time.Now()
	var cutting time.Duration
	for clock := 1; clock <= s.clocks; clock++ {
		if err := all(c.workers, "clock %d", clock); err != nil {
			return r, err
		}
		if clock%2 == 1 {
			before := time.Now()
			if err := c.cut(clock); err != nil {
				return r, err
			}
			cutting += time.Since(before)
		}
	}
	r.clock = (time.Since(began) - cutting).Seconds() / float64(s.clocks)
	if c.firstSeconds > 0 {
		r.first = c.firstBytes / c.firstSeconds / 1e9
	}
	if c.laterSecond > 0 {
		r.later = c.laterBytes / c.laterSecond / 1e9
	}
	if total := c.firstBytes + c.laterBytes; total > 0 {
		r.busy = c.cutBusy / total * 1e9
	}
	for most, list := range map[*float64][]*process{&r.owner: c.owners, &r.backup: c.backups, &r.worker: c.workers} {
		for _, p := range list {
			bytes, err := peak(p.command.Process.Pid)
			if err != nil {
				return r, err
			}
			*most = max(*most, bytes-c.began[p])
		}
	}
	return r, nil
}

// gather starts all processes and connects them.
func (c *cast) gather() error {
	var peers []string
	add := func(list *[]*process, role string, i int) error {
		p, err := start(role, append(c.shape.args(), fmt.Sprint("-self=", role[:1], i))...)
		if err != nil {
			return err
		}
		*list, c.everybody = append(*list, p), append(c.everybody, p)
		address, err := p.line()
		if err != nil {
			return fmt.Errorf("start %s: %w", role, err)
		}
		if role != "worker" {
			peers = append(peers, fmt.Sprintf("%s%d=%s", role[:1], i, address))
		}
		c.began[p], err = peak(p.command.Process.Pid)
		return err
	}
	for i := range c.shape.owners {
		if err := add(&c.owners, "owner", i); err != nil {
			return err
		}
		if err := add(&c.backups, "backup", i); err != nil {
			return err
		}
	}
	for i := range c.shape.workers {
		if err := add(&c.workers, "worker", i); err != nil {
			return err
		}
	}
	return all(c.everybody, "route %s", strings.Join(peers, " "))
}

// cut names a cut, waits for it to be held, and commits it.
func (c *cast) cut(clock int) error {
	servers := append(append([]*process(nil), c.owners...), c.backups...)
	before, err := busy(servers)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := all(c.owners, "name %d", clock); err != nil {
		return err
	}
	total := 0.0
	for _, p := range c.backups {
		text, err := p.ask("held %d", clock)
		var bytes float64
		if _, scanned := fmt.Sscanf(text, "ok %f", &bytes); err != nil || scanned != nil {
			return fmt.Errorf("cut %d: %q: %w", clock, text, err)
		}
		total += bytes
	}
	if seconds := time.Since(began).Seconds(); clock == 1 {
		c.firstBytes, c.firstSeconds = total, seconds
	} else {
		c.laterBytes, c.laterSecond = c.laterBytes+total, c.laterSecond+seconds
	}
	after, err := busy(servers)
	if err != nil {
		return err
	}
	c.cutBusy += after - before
	return all(servers, "commit %d", clock)
}

// all sends processes a command concurrently, and waits for all.
func all(list []*process, format string, args ...any) error {
	for _, p := range list {
		if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
			return err
		}
	}
	for _, p := range list {
		if text, err := p.line(); err != nil || !strings.HasPrefix(text, "ok") {
			return fmt.Errorf("%s: %q: %w", fmt.Sprintf(format, args...), text, err)
		}
	}
	return nil
}
