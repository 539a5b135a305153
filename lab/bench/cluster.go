package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tierml/tierml/apps"
	registry "github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/link"
)

// A job on machines as in a real run (tiers/node), each a process of its own on this host: one serves all partitions,
// the others are workers. Instead of a controller, cluster commands them: it sets how far they may train, and waits.

const clusterJob = "bench"

// clusterSpec is what a cluster trains.
type clusterSpec struct {
	kind    apps.Kind
	params  apps.Params
	input   string // a file
	splits  int
	workers int
	threads int // per worker
}

// cluster is a group of machines that train together.
type cluster struct {
	program  apps.Program
	dir      string // of the splits
	schema   ps.Schema
	link     *link.Link
	machines []*Process
	workers  []ps.ServerID
	route    ps.Route
	peers    map[ps.ServerID]string
	commands uint64
	clock    ps.Clock // all workers have finished it
}

const (
	clusterServer     ps.ServerID = "server"
	clusterPartitions int         = 32 // the default in job files
	// clusterPatience is the time limit for any command to a machine.
	clusterPatience = time.Minute
)

// startCluster cuts the input and starts the machines; they do not train before train is called.
func startCluster(ctx context.Context, env *Env, spec clusterSpec) (c *cluster, err error) {
	c = &cluster{peers: map[ps.ServerID]string{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	data, err := c.cut(env, spec)
	if err != nil {
		return c, err
	}
	if c.program, err = spec.kind.New(spec.params, data); err != nil {
		return c, err
	}
	c.schema = ps.Schema{Tables: c.program.Tables(), Partitions: clusterPartitions, Splits: spec.splits, Seed: 1}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	c.link, err = link.Listen(ctx, link.Config{Listener: listener, Log: slog.New(slog.DiscardHandler),
		Accept: func(tiers.Hello) error { return nil }})
	if err != nil {
		return c, errors.Join(err, listener.Close())
	}
	ids := []ps.ServerID{clusterServer}
	for i := range spec.workers {
		c.workers = append(c.workers, ps.ServerID(fmt.Sprint("worker-", i)))
	}
	ids = append(ids, c.workers...)
	for i, id := range ids {
		if err := c.join(ctx, env, listener.Addr().String(), id, i+1, spec, data); err != nil {
			return c, err
		}
	}
	return c, c.assign(ids, spec)
}

// cut writes the split files.
func (c *cluster) cut(env *Env, spec clusterSpec) (apps.Dataset, error) {
	var err error
	if c.dir, err = os.MkdirTemp(env.Dir, "splits-"); err != nil {
		return apps.Dataset{}, err
	}
	file, err := os.Open(spec.input)
	if err != nil {
		return apps.Dataset{}, err
	}
	defer file.Close()
	return spec.kind.Prepare(apps.Input{Name: spec.input, Data: file}, apps.Cut{Splits: spec.splits, Seed: 1},
		func(id ps.Split) (io.WriteCloser, error) { return os.Create(splitPath(c.dir, id)) })
}

func splitPath(dir string, id ps.Split) string { return filepath.Join(dir, fmt.Sprint(id)) }

func (c *cluster) open(id ps.Split) (io.ReadCloser, error) { return os.Open(splitPath(c.dir, id)) }

// join starts a machine and welcomes it.
func (c *cluster) join(ctx context.Context, env *Env, controller string, id ps.ServerID, number int, spec clusterSpec, data apps.Dataset) error {
	machine, err := Start(ctx, nil, env.Self, "machine", controller, string(id), fmt.Sprint(spec.threads))
	if err != nil {
		return err
	}
	c.machines = append(c.machines, machine)
	hello, err := c.await(func(r link.FromNode) bool { _, ok := r.Report.(tiers.Hello); return ok && r.ID == id })
	if err != nil {
		return err
	}
	c.peers[id] = hello.(tiers.Hello).Address
	dataset, err := json.Marshal(data)
	if err != nil {
		return err
	}
	params := map[string]string{}
	for name, value := range spec.params {
		params[name] = fmt.Sprint(value)
	}
	return c.do(id, tiers.Welcome{Schema: c.schema, Incarnation: ps.Incarnation(number), App: spec.kind.Name(), Params: params,
		Dataset: dataset, SplitsURL: c.dir, Until: 1 << 40, Heartbeat: time.Second, OrphanAfter: time.Minute})
}

// assign assigns the server its partitions and the workers their splits, with training held.
func (c *cluster) assign(ids []ps.ServerID, spec clusterSpec) error {
	c.route.Version = 1
	var all []ps.Partition
	for p := range ps.Partition(clusterPartitions) {
		all, c.route.Owner = append(all, p), append(c.route.Owner, clusterServer)
	}
	c.route.Backup = c.route.Owner
	if err := c.do(clusterServer, tiers.Own{Partitions: all}); err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.do(id, tiers.SetRoute{Route: c.route, Peers: c.peers}); err != nil {
			return err
		}
	}
	shares := make([][]tiers.SplitAt, len(c.workers))
	for s := range spec.splits {
		w := s % len(c.workers)
		shares[w] = append(shares[w], tiers.SplitAt{Split: ps.Split(s), Clock: 1})
	}
	for i, id := range c.workers {
		for _, do := range []tiers.Do{tiers.Park{}, tiers.Assign{Splits: shares[i]}} {
			if err := c.do(id, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// train runs this many more clocks and returns their duration, from the command to the last worker's
// report.
func (c *cluster) train(clocks int) (time.Duration, error) {
	c.clock += ps.Clock(clocks)
	began := time.Now()
	for _, id := range c.workers {
		if err := c.send(id, tiers.Unpark{Until: c.clock}); err != nil {
			return 0, err
		}
	}
	for left := len(c.workers); left > 0; left-- {
		_, err := c.await(func(r link.FromNode) bool {
			p, ok := r.Report.(tiers.Progress)
			return ok && p.Clock == c.clock
		})
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func (c *cluster) send(id ps.ServerID, do tiers.Do) error {
	c.commands++
	return c.link.Send(id, tiers.Command{ID: c.commands, Do: do})
}

// do sends a command and waits until it is done.
func (c *cluster) do(id ps.ServerID, do tiers.Do) error {
	if err := c.send(id, do); err != nil {
		return err
	}
	answer, err := c.await(func(r link.FromNode) bool {
		a, ok := r.Report.(tiers.Answer)
		return ok && r.ID == id && a.ID == c.commands
	})
	if err != nil {
		return err
	}
	if a := answer.(tiers.Answer); a.Code != tiers.CodeOK {
		return fmt.Errorf("%s: %T: %s", id, do, a.Error)
	}
	return nil
}

// await reads reports until one matches.
func (c *cluster) await(right func(link.FromNode) bool) (tiers.Report, error) {
	patience := time.NewTimer(clusterPatience)
	defer patience.Stop()
	for {
		select {
		case r, open := <-c.link.Reports():
			switch failed, bad := r.Report.(tiers.Failed); {
			case !open:
				return nil, io.ErrUnexpectedEOF
			case bad:
				return nil, fmt.Errorf("%s: %s", r.ID, failed.Error)
			case r.Disconnected != nil:
				return nil, fmt.Errorf("%s is gone: %w", r.ID, r.Disconnected)
			case right(r):
				return r.Report, nil
			}
		case <-patience.C:
			return nil, errors.New("a machine does not answer")
		}
	}
}

// tables reads the model from the server.
func (c *cluster) tables(ctx context.Context) (apps.Rows, error) {
	client, err := node.NewDataClient(node.ClientConfig{Self: "bench", Job: clusterJob, Schema: c.schema, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	client.SetRoute(0, c.route, c.peers)
	rows := tableRows{}
	for id, t := range c.schema.Tables {
		for row := range t.Rows {
			k := ps.Key{Table: ps.TableID(id), Row: ps.RowID(row)}
			rows[k] = make([]float32, t.Cols)
			if err := client.Read(ctx, 0, c.clock+1, []ps.Key{k}, rows[k], nil); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

type tableRows map[ps.Key][]float32

// Row returns a row.
func (t tableRows) Row(k ps.Key) []float32 { return t[k] }

// Close ends the machines.
func (c *cluster) Close() {
	for _, m := range c.machines {
		m.Close()
	}
	if c.link != nil {
		_ = c.link.Close()
	}
}

// runMachine is a machine's process: a node like that of `tierml agent`, until its standard input ends.
func runMachine(args []string) error {
	flags := flag.NewFlagSet("machine", flag.ContinueOnError)
	if err := flags.Parse(args); err != nil {
		return err
	}
	threads, err := strconv.Atoi(flags.Arg(2))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- node.Run(ctx, node.Config{
			Machine:   benchMachine{controller: flags.Arg(0), id: ps.ServerID(flags.Arg(1))},
			NewServer: node.NewDataServer,
			NewClient: node.NewDataClient,
			NewApp:    newProgram,
			Threads:   threads,
			OpenSplit: func(dir string, id ps.Split) (io.ReadCloser, error) { return os.Open(splitPath(dir, id)) },
			Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		})
	}()
	fmt.Println("ready", os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	return <-ended
}

func newProgram(name string, texts map[string]string, dataset []byte) (apps.App, error) {
	kind, err := registry.Registry().Find(name)
	if err != nil {
		return nil, err
	}
	params := apps.Params{}
	for name, text := range texts {
		if params[name], err = strconv.ParseFloat(text, 64); err != nil {
			return nil, err
		}
	}
	var data apps.Dataset
	if err := json.Unmarshal(dataset, &data); err != nil {
		return nil, err
	}
	return kind.New(params, data)
}

// benchMachine is a machine that takes its identity from its command line.
type benchMachine struct {
	controller string
	id         ps.ServerID
}

// Identity implements node.Machine.
func (m benchMachine) Identity(context.Context) (node.Identity, error) {
	return node.Identity{Instance: m.id, Type: clusterJob}, nil
}

// UserData implements node.Machine.
func (m benchMachine) UserData(context.Context) (string, error) {
	return node.UserData{Controller: m.controller, Token: clusterJob, Job: clusterJob, Listen: "127.0.0.1:0"}.Encode(), nil
}

// Watch implements node.Machine.
func (m benchMachine) Watch(ctx context.Context, _ func(tiers.Warned)) error {
	<-ctx.Done()
	return ctx.Err()
}
