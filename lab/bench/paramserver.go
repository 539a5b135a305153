package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// paramServer compares push and pull: a vector of a given size is added to the server's, then read back.
var paramServer = Group{Name: "parameter-server", Title: "Push + pull through client and server", Pairs: 15, Open: openParamServer}

// pushPull is one implementation's server and client.
type pushPull struct {
	client *Process
	pids   []string // of both, to measure their processor time
	close  func()
}

// aim is the approximate duration of one measurement.
const aim = 100 * time.Millisecond

// measure returns pairs per second.
func (p *pushPull) measure(mode string, size int) Measure {
	pairs := 16 // as many as fit the time, as the first measurements determine
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

// processorTime returns the processor seconds per gigabyte, for both sides together.
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

// ends are prefixes of the commands of a server and its client, e.g. to place them on a core or a host of their own.
type ends struct{ server, client []string }

// startC starts both ends of the reference in C, on certain cores if given: the server's and the client's.
func startC(ctx context.Context, env *Env, cores ...string) (p *pushPull, skip string, err error) {
	program, skip := env.Compile(ctx, "tcp.c")
	if skip != "" {
		return nil, skip, nil
	}
	process, err := Start(ctx, nil, program, cores...)
	if err != nil {
		return nil, "", err
	}
	return &pushPull{client: process, pids: process.Words, close: process.Close}, "", nil
}

// startOurs starts both ends of a kind: ps, or bare.
func startOurs(ctx context.Context, env *Env, kind string, at ends, args ...string) (*pushPull, error) {
	begin := func(by []string, args ...string) (*Process, error) {
		command := slices.Concat(by, []string{env.Self}, args)
		return Start(ctx, nil, command[0], command[1:]...)
	}
	server, err := begin(at.server, slices.Concat([]string{kind + "-server"}, args)...)
	if err != nil {
		return nil, err
	}
	client, err := begin(at.client, slices.Concat([]string{kind + "-client"}, args, server.Words[1:2])...)
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

// pushPulls has the processes and rows of the group.
type pushPulls struct {
	env     *Env
	rows    []Row
	started []func() // functions that end them
}

func openParamServer(ctx context.Context, env *Env) (rows []Row, closeAll func(), err error) {
	all := &pushPulls{env: env}
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	plain, err := all.ours(ctx, ends{})
	if err != nil {
		return nil, nil, err
	}
	for _, open := range []func(context.Context, *pushPull) error{all.besideC, all.besidePSLite, all.secure, all.near} {
		if err := open(ctx, plain); err != nil {
			return nil, nil, err
		}
	}
	return all.rows, all.close, nil
}

func (a *pushPulls) close() {
	for _, end := range slices.Backward(a.started) {
		end()
	}
}

func (a *pushPulls) ours(ctx context.Context, at ends, args ...string) (*pushPull, error) {
	return a.both(ctx, "ps", at, args...)
}

func (a *pushPulls) both(ctx context.Context, kind string, at ends, args ...string) (*pushPull, error) {
	p, err := startOurs(ctx, a.env, kind, at, args...)
	if err == nil {
		a.started = append(a.started, p.close)
	}
	return p, err
}

// add adds a row of ours next to theirs, which is nil if the row is skipped.
func (a *pushPulls) add(what, against, skip string, bar float64, mode string, size int, ours, theirs *pushPull) {
	row := Row{What: what + ", " + sizeName(size), Against: against, Unit: "pairs/s", Bar: bar, Skip: skip}
	if skip == "" {
		row.Ours, row.Theirs = ours.measure(mode, size), theirs.measure(mode, size)
	}
	a.rows = append(a.rows, row)
}

// sizeBar is the required ratio at a size.
type sizeBar struct {
	size int
	bar  float64
}

const inC = "blocking TCP in C"

// besideC adds rows for small pairs with both ends on one core and with a core each: otherwise the kernel places them
// differently each time, which determines the rate.
func (a *pushPulls) besideC(ctx context.Context, plain *pushPull) error {
	for _, place := range []struct {
		what  string
		cores [2]string
		bar   float64
	}{{"both ends on one core", [2]string{"0", "0"}, 0.65}, {"ends on two cores", [2]string{"0", "1"}, 0.95}} {
		var ours *pushPull
		theirs, skip, err := startC(ctx, a.env, place.cores[:]...)
		if err != nil {
			return err
		}
		if skip == "" {
			a.started = append(a.started, theirs.close)
			pin := func(core string) []string { return []string{"taskset", "-c", core} }
			if ours, err = a.ours(ctx, ends{server: pin(place.cores[0]), client: pin(place.cores[1])}); err != nil {
				return err
			}
		}
		for _, size := range []int{1 << 10, 4 << 10, 64 << 10} {
			a.add(place.what, inC, skip, place.bar, "sync", size, ours, theirs)
		}
	}
	theirs, skip, err := startC(ctx, a.env)
	if err != nil {
		return err
	}
	if skip == "" {
		a.started = append(a.started, theirs.close)
	}
	for _, b := range []sizeBar{{1 << 20, 0.85}, {16 << 20, 0.95}} {
		a.add("one worker", inC, skip, b.bar, "sync", b.size, plain, theirs)
	}
	row := Row{What: "processor time, 1 MiB", Against: inC, Unit: "s/GB", Bar: 1.2, AtMost: true, Ours: plain.processorTime(1 << 20), Skip: skip}
	if skip == "" {
		row.Theirs = theirs.processorTime(1 << 20)
	}
	a.rows = append(a.rows, row)
	return nil
}

func (a *pushPulls) besidePSLite(ctx context.Context, plain *pushPull) error {
	const against = "ps-lite, the same"
	theirs, skip, err := startPSLite(ctx, a.env)
	if err != nil {
		return err
	}
	if skip == "" {
		a.started = append(a.started, theirs.close)
	}
	pipelined, err := a.ours(ctx, ends{}, "-splits", fmt.Sprint(inFlight))
	if err != nil {
		return err
	}
	for _, size := range rowSizes {
		a.add(fmt.Sprintf("%d in flight", inFlight), against, skip, 2, "pipelined", size, pipelined, theirs)
	}
	for _, b := range []sizeBar{{1 << 10, 3.5}, {4 << 10, 3.5}, {64 << 10, 2.8}, {1 << 20, 1.8}, {16 << 20, 0}} {
		a.add("one after the other", against, skip, b.bar, "sync", b.size, plain, theirs)
	}
	return nil
}

// secure adds rows for the cost of encryption: between two hosts, where a cable limits both sides, and on loopback,
// where nothing else does.
func (a *pushPulls) secure(ctx context.Context, plain *pushPull) error {
	certificate := filepath.Join(a.env.Dir, "certificate.pem")
	if err := writeCertificate(certificate); err != nil {
		return err
	}
	for _, cable := range []struct {
		rate string
		bar  float64
	}{{"1gbit", 0.97}, {"10gbit", 0.9}} {
		at, end, skip, err := layCable(ctx, cable.rate)
		if err != nil {
			return err
		}
		if skip == "" {
			a.started = append(a.started, end)
		}
		for _, of := range []struct {
			kind, what, against string
			bar                 float64
		}{{"ps", "mutual TLS, ", "ours, plain, the same cable", cable.bar}, {"bare", "a vector there and back by crypto/tls alone, ", "the same, plain", 0}} {
			var secure, plain *pushPull
			if skip == "" {
				if secure, err = a.both(ctx, of.kind, at, "-listen", cableServer, "-tls", certificate); err != nil {
					return err
				}
				if plain, err = a.both(ctx, of.kind, at, "-listen", cableServer); err != nil {
					return err
				}
			}
			a.add(of.what+cable.rate, of.against, skip, of.bar, "sync", 1<<20, secure, plain)
		}
	}
	secure, err := a.ours(ctx, ends{}, "-tls", certificate)
	if err != nil {
		return err
	}
	a.add("mutual TLS, loopback", "ours, plain", "", 0, "sync", 1<<20, secure, plain)
	a.rows = append(a.rows, Row{What: "mutual TLS, processor time, 1 MiB", Against: "ours, plain", Unit: "s/GB",
		Ours: secure.processorTime(1 << 20), Theirs: plain.processorTime(1 << 20)})
	return nil
}

func (a *pushPulls) near(ctx context.Context, plain *pushPull) error {
	near, err := a.ours(ctx, ends{}, "-near")
	if err != nil {
		return err
	}
	for _, size := range []int{1 << 10, 4 << 10, 64 << 10} {
		a.add("Unix socket", "ours, TCP", "", 1.15, "sync", size, near, plain)
	}
	return nil
}

func sizeName(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}
