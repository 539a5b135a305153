package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

// What the parameter-server rows measure: a real server and a real client, each in a process of its own. A push is a
// Contribute that adds to every row of a table; a pull is the Read of all its rows.

const (
	benchJob        = 0xbe2c4
	benchPartitions = 8
	inFlight        = 8 // concurrent requests of a worker, if pipelined
)

// rowSizes are the bytes of the tables, one per measured size.
var rowSizes = []int{1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20}

// rowsSchema has a table for each size. Each concurrent request belongs to a split of its own.
func rowsSchema(splits int) ps.Schema {
	s := ps.Schema{Partitions: benchPartitions, Splits: splits}
	if splits > 1 {
		s.Staleness = 8
	}
	for _, size := range rowSizes {
		cols := min(size/4, 1024)
		s.Tables = append(s.Tables, ps.Table{Name: fmt.Sprint(size), Rows: uint64(size / 4 / cols), Cols: cols})
	}
	return s
}

// serveRows is the server's process: it serves until its standard input ends.
func serveRows(args []string) error {
	flags := flag.NewFlagSet("ps-server", flag.ContinueOnError)
	splits := flags.Int("splits", 1, "splits of the job")
	certificate := flags.String("tls", "", "file with certificate and key: mutual TLS")
	_ = flags.Bool("near", false, "for the client")
	listen := flags.String("listen", "127.0.0.1", "the address that it serves at")
	if err := flags.Parse(args); err != nil {
		return err
	}
	secure, err := mutualTLS(*certificate)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(*listen, "0"))
	if err != nil {
		return err
	}
	schema := rowsSchema(*splits)
	s := server.New(server.Config{Self: "server", Schema: schema, Job: benchJob, Listener: listener, TLS: secure})
	var all []ps.Partition
	for p := range schema.Partitions {
		all = append(all, ps.Partition(p))
	}
	s.Own(all)
	s.SetRoute(1, benchRoute(), nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	fmt.Println("ready", os.Getpid(), listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	return <-ended
}

func benchRoute() ps.Route {
	r := ps.Route{Version: 1}
	for range benchPartitions {
		r.Owner = append(r.Owner, "server")
	}
	return r
}

// worker is one split's work on one table.
type worker struct {
	client *client.Client
	split  ps.Split
	clock  ps.Clock
	rows   client.Rows
}

// pair pushes once and pulls once.
func (w *worker) pair(ctx context.Context, keys []ps.Key, sums []client.PartitionSums) error {
	w.clock++
	inc := ps.Incarnation(w.split + 1)
	if err := w.client.Contribute(ctx, 1, inc, uint64(w.clock), w.clock, []ps.Split{w.split}, sums); err != nil {
		return err
	}
	return w.client.Read(ctx, 1, w.clock+1, keys, &w.rows)
}

// askRows is the client's process, whose pairs are pushes and pulls.
func askRows(args []string) error {
	flags := flag.NewFlagSet("ps-client", flag.ContinueOnError)
	splits := flags.Int("splits", 1, "splits of the job")
	certificate := flags.String("tls", "", "file with certificate and key: mutual TLS")
	_ = flags.String("listen", "", "for the server")
	near := flags.Bool("near", false, "by a Unix socket, as the client does if nobody tells it otherwise")
	if err := flags.Parse(args); err != nil {
		return err
	}
	secure, err := mutualTLS(*certificate)
	if err != nil {
		return err
	}
	schema := rowsSchema(*splits)
	config := client.Config{Schema: schema, Job: benchJob, TLS: secure}
	if !*near {
		config.Dial = wire.DialTCP
	}
	c := client.New(config)
	defer c.Close()
	c.SetRoute(1, benchRoute(), map[ps.ServerID]string{"server": flags.Arg(0)})
	workers := make([]*worker, *splits)
	for i := range workers {
		workers[i] = &worker{client: c, split: ps.Split(i)}
	}
	fmt.Println("ready", os.Getpid())
	return answer(func(size, pairs int) error {
		keys, sums := tableSums(&schema, size)
		return runPairs(workers, keys, sums, pairs)
	})
}

// runPairs divides pairs among the workers, which run concurrently.
func runPairs(workers []*worker, keys []ps.Key, sums []client.PartitionSums, pairs int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	work := func(w *worker) error {
		for range max(pairs/len(workers), 1) {
			if err := w.pair(ctx, keys, sums); err != nil {
				return err
			}
		}
		return nil
	}
	failed := make([]error, len(workers))
	var done sync.WaitGroup
	for i, w := range workers[1:] {
		done.Go(func() { failed[i+1] = work(w) })
	}
	failed[0] = work(workers[0])
	done.Wait()
	return errors.Join(failed...)
}

// tableSums returns the keys of the table of a size, by partition as workers request them, and a contribution of ones
// to all its rows.
func tableSums(s *ps.Schema, size int) ([]ps.Key, []client.PartitionSums) {
	sums := make([]client.PartitionSums, s.Partitions)
	for t, table := range s.Tables {
		if int(table.Rows)*table.Cols*4 != size {
			continue
		}
		for row := range table.Rows {
			k := ps.Key{Table: ps.TableID(t), Row: ps.RowID(row)}
			part := &sums[s.PartitionOf(k)].Sums
			part.Keys = append(part.Keys, k)
			for range table.Cols {
				part.Float = append(part.Float, 1)
			}
		}
	}
	var keys []ps.Key
	for p := range sums {
		sums[p].Partition = ps.Partition(p)
		keys = append(keys, sums[p].Sums.Keys...)
	}
	return keys, sums
}
