package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// paramServer compares push and pull: the vector of a size is added to the server's, then read back.
var paramServer = Group{Name: "parameter-server", Title: "Push + pull through client and server", Open: openParamServer}

// pushPull is somebody's server and client.
type pushPull struct {
	client *Process
	pids   []string // of both, for their processor time
	close  func()
}

// aim is about how long one measurement takes.
const aim = 100 * time.Millisecond

// measure returns pairs per second.
func (p *pushPull) measure(mode string, size int) Measure {
	pairs := 16 // as many as fit the time, which the first measurements find out
	return func(context.Context) (float64, error) {
		took, err := p.client.Ask("%s %d %d", mode, size, pairs)
		if err != nil {
			return 0, err
		}
		rate := float64(pairs) / (took[0] / 1e9)
		pairs = max(int(rate*aim.Seconds())/inFlight*inFlight, 2*inFlight)
		return rate, nil
	}
}

// processorTime returns the seconds of processor time that a gigabyte takes, on both sides together.
func (p *pushPull) processorTime(size int) Measure {
	return func(context.Context) (float64, error) {
		before, err := cpuSeconds(p.pids)
		if err != nil {
			return 0, err
		}
		pairs := 200 << 20 / size
		if _, err := p.client.Ask("sync %d %d", size, pairs); err != nil {
			return 0, err
		}
		after, err := cpuSeconds(p.pids)
		return (after - before) / (2 * float64(pairs) * float64(size) / 1e9), err
	}
}

func startC(ctx context.Context, env *Env) (p *pushPull, skip string, err error) {
	program, skip := env.Compile(ctx, "tcp.c")
	if skip != "" {
		return nil, skip, nil
	}
	process, err := Start(ctx, nil, program)
	if err != nil {
		return nil, "", err
	}
	return &pushPull{client: process, pids: process.Words, close: process.Close}, "", nil
}

func startOurs(ctx context.Context, env *Env, args ...string) (*pushPull, error) {
	server, err := Start(ctx, nil, env.Self, append([]string{"ps-server"}, args...)...)
	if err != nil {
		return nil, err
	}
	client, err := Start(ctx, nil, env.Self, append(append([]string{"ps-client"}, args...), server.Words[1])...)
	if err != nil {
		server.Kill()
		return nil, err
	}
	return &pushPull{
		client: client,
		pids:   []string{server.Words[0], client.Words[0]},
		close:  func() { client.Close(); server.Close() },
	}, nil
}

func openParamServer(ctx context.Context, env *Env) (rows []Row, closeAll func(), err error) {
	var started []*pushPull
	closeAll = func() {
		for _, p := range started {
			p.close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	ours, err := startOurs(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	started = append(started, ours)
	pipelined, err := startOurs(ctx, env, "-splits", fmt.Sprint(inFlight))
	if err != nil {
		return nil, nil, err
	}
	started = append(started, pipelined)
	near, err := startOurs(ctx, env, "-near")
	if err != nil {
		return nil, nil, err
	}
	started = append(started, near)
	certificate := filepath.Join(env.Dir, "certificate.pem")
	if err := writeCertificate(certificate); err != nil {
		return nil, nil, err
	}
	secure, err := startOurs(ctx, env, "-tls", certificate)
	if err != nil {
		return nil, nil, err
	}
	started = append(started, secure)
	inC, noC, err := startC(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	if inC != nil {
		started = append(started, inC)
	}
	psLite, noPSLite, err := startPSLite(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	if psLite != nil {
		started = append(started, psLite)
	}

	for _, r := range []struct {
		size int
		bar  float64
	}{{1 << 10, 0.65}, {4 << 10, 0.65}, {64 << 10, 0.80}, {1 << 20, 0.85}, {16 << 20, 0.95}} {
		row := Row{What: "one worker, plain, " + sizeName(r.size), Against: "blocking TCP in C", Unit: "pairs/s",
			Bar: r.bar, Ours: ours.measure("sync", r.size), Skip: noC}
		if inC != nil {
			row.Theirs = inC.measure("sync", r.size)
		}
		rows = append(rows, row)
	}
	row := Row{What: "processor time, 1 MiB", Against: "blocking TCP in C", Unit: "s/GB", Bar: 1.2, AtMost: true,
		Ours: ours.processorTime(1 << 20), Skip: noC}
	if inC != nil {
		row.Theirs = inC.processorTime(1 << 20)
	}
	rows = append(rows, row)
	for _, size := range rowSizes {
		row := Row{What: fmt.Sprintf("%d in flight, %s", inFlight, sizeName(size)), Against: "ps-lite, the same",
			Unit: "pairs/s", Bar: 1.5, Ours: pipelined.measure("pipelined", size), Skip: noPSLite}
		if psLite != nil {
			row.Theirs = psLite.measure("pipelined", size)
		}
		rows = append(rows, row)
	}
	for _, r := range []struct {
		size int
		bar  float64
	}{{1 << 10, 3.5}, {4 << 10, 3.5}, {64 << 10, 2.8}, {1 << 20, 1.8}, {16 << 20, 0}} {
		row := Row{What: "one after the other, " + sizeName(r.size), Against: "ps-lite, the same",
			Unit: "pairs/s", Bar: r.bar, Ours: ours.measure("sync", r.size), Skip: noPSLite}
		if psLite != nil {
			row.Theirs = psLite.measure("sync", r.size)
		}
		rows = append(rows, row)
	}
	rows = append(rows, Row{What: "mutual TLS, 1 MiB", Against: "ours, plain", Unit: "pairs/s", Bar: 0.5,
		Ours: secure.measure("sync", 1<<20), Theirs: ours.measure("sync", 1<<20)})
	for _, size := range []int{1 << 10, 4 << 10, 64 << 10} {
		rows = append(rows, Row{What: "Unix socket, " + sizeName(size), Against: "ours, TCP", Unit: "pairs/s", Bar: 1.15,
			Ours: near.measure("sync", size), Theirs: ours.measure("sync", size)})
	}
	return rows, closeAll, nil
}

func sizeName(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}
