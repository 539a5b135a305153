package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
)

const job = 0xf007

// child answers the commands of measure, one line each, until its input ends.
func child(role string, args []string) error {
	set := flag.NewFlagSet(role, flag.ContinueOnError)
	var s shape
	s.flags(set)
	self := set.String("self", "", "the name that others know it by")
	if err := set.Parse(args); err != nil {
		return err
	}
	begin := serve
	if role == "worker" {
		begin = work
	}
	obey, end, err := begin(role, ps.ServerID(*self), &s)
	if err != nil {
		return err
	}
	defer end()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		text, err := obey(word, rest)
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", role, word, rest, err)
		}
		fmt.Println("ok", text)
	}
	return lines.Err()
}

// parseRoute reads the addresses of servers. Partitions are assigned to owners in turn, and to the backup
// with the same number.
func parseRoute(s *shape, text string) (ps.Route, map[ps.ServerID]string) {
	peers := map[ps.ServerID]string{}
	for peer := range strings.FieldsSeq(text) {
		id, address, _ := strings.Cut(peer, "=")
		peers[ps.ServerID(id)] = address
	}
	route := ps.Route{Version: 1}
	for p := range s.partitions {
		route.Owner = append(route.Owner, ps.ServerID(fmt.Sprint("o", p%s.owners)))
		route.Backup = append(route.Backup, ps.ServerID(fmt.Sprint("b", p%s.owners)))
	}
	return route, peers
}

type fixedSource func(word, rest string) (answer string, err error)

type heldCut struct {
	cut   ps.Clock
	bytes int64
}

// serve returns an owner or a backup.
func serve(_ string, self ps.ServerID, s *shape) (obey fixedSource, end func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	held := make(chan heldCut, 16)
	srv := server.New(server.Config{Self: self, Schema: s.schema(), Job: job, Listener: listener,
		OnCutHeld: func(cut ps.Clock, bytes int64, _ time.Duration) { held <- heldCut{cut, bytes} }})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(ctx) })
	fmt.Println(listener.Addr())
	obey = func(word, rest string) (string, error) {
		var clock ps.Clock
		_, _ = fmt.Sscan(rest, &clock)
		switch word {
		case "route":
			route, peers := parseRoute(s, rest)
			for p := range ps.Partition(s.partitions) {
				if route.Owner[p] == self {
					srv.Own([]ps.Partition{p})
				}
				if route.Backup[p] == self {
					srv.BackUp([]ps.Partition{p}, false)
				}
			}
			srv.SetRoute(1, route, peers)
			return "", nil
		case "name":
			return "", srv.NameCut(clock)
		case "commit":
			return "", srv.CommitCut(clock)
		case "held":
			for h := range held {
				if h.cut == clock {
					return fmt.Sprint(h.bytes), nil
				}
			}
		}
		return "", errors.New("unknown order")
	}
	return obey, func() { cancel(); serving.Wait() }, nil
}

// work returns a worker that adds to every parameter in every clock.
func work(_ string, self ps.ServerID, s *shape) (obey fixedSource, end func(), err error) {
	var number int
	if _, err := fmt.Sscanf(string(self), "w%d", &number); err != nil {
		return nil, nil, err
	}
	schema := s.schema()
	cl := client.New(client.Config{Schema: schema, Job: job, Incarnation: ps.Incarnation(number + 1)})
	var keys []ps.Key
	for row := range ps.RowID(schema.Tables[0].Rows) {
		keys = append(keys, ps.Key{Row: row})
	}
	fmt.Println("worker")
	var sums []client.PartitionSums
	var rows client.Rows
	obey = func(word, rest string) (string, error) {
		if word == "route" {
			route, peers := parseRoute(s, rest)
			cl.SetRoute(1, route, peers)
			sums = ownSums(&schema, keys, number)
			return "", nil
		}
		var clock ps.Clock
		if _, err := fmt.Sscan(rest, &clock); err != nil {
			return "", err
		}
		ctx := context.Background()
		if err := cl.Read(ctx, 1, clock, keys, &rows); err != nil {
			return "", err
		}
		// Every worker has added number+1 to each parameter in each clock; unless deterministic, others may be ahead by
		// the present clock.
		least := float32(clock-1) * float32(s.workers*(s.workers+1)/2)
		most := least + float32(s.workers*(s.workers+1)/2-number-1)
		if s.deterministic {
			most = least
		}
		for i, got := range rows.Values {
			if got < least || got > most {
				return "", fmt.Errorf("parameter %d is %g, not from %g to %g", i, got, least, most)
			}
		}
		return "", cl.Contribute(ctx, 1, ps.Incarnation(number+1), uint64(clock), clock, []ps.Split{ps.Split(number)}, sums)
	}
	return obey, cl.Close, nil
}

// ownSums returns what a worker sends in every clock.
func ownSums(schema *ps.Schema, keys []ps.Key, number int) []client.PartitionSums {
	sums := make([]client.PartitionSums, schema.Partitions)
	cells := schema.Tables[0].Cols
	for _, k := range keys {
		u := &sums[schema.PartitionOf(k)]
		u.Sums.Keys = append(u.Sums.Keys, k)
	}
	for p := range sums {
		u := &sums[p]
		u.Partition = ps.Partition(p)
		if n := cells * len(u.Sums.Keys); schema.Deterministic {
			u.Sums.Fixed = make([]int64, n)
			for i := range u.Sums.Fixed {
				u.Sums.Fixed[i] = int64(number+1) << 32
			}
		} else {
			u.Sums.Float = make([]float32, n)
			for i := range u.Sums.Float {
				u.Sums.Float[i] = float32(number + 1)
			}
		}
	}
	return sums
}
