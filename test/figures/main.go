// Command figures measures how long clocks take on up to 64 machines whose network is the bottleneck, as the figures 7 to 11
// of the paper "TierML (CMU-PDL-16-102)" do. A machine is a process of the real agent in a network namespace of its own,
// with a link that is shaped in both directions; computing is paced, so that two cores play 64 machines. The controller, the
// parameter servers and the workers are those of every run; the cloud is a few lines that start and kill such processes.
//
// It needs root, and ip and tc of Debian's iproute2.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		if err := agent(); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
		return
	}
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// settings of a network and a job.
type settings struct {
	rate    string        // of a link in each direction, as tc has it
	compute time.Duration // of a clock, on 63 or 64 machines
	// computeBulk is compute for figure 11, in which four machines do all of it: sixteen times as long.
	computeBulk time.Duration
	splits      int
	join        time.Duration // that machines have for joining: clocks are short until then
	clocks      int           // measured
	runs        int
	log         string
}

func command() error {
	var s settings
	flag.StringVar(&s.rate, "rate", "4mbit", "of a link in each direction, as tc has it")
	flag.DurationVar(&s.compute, "compute", 3*time.Second, "that a clock computes on 63 or 64 machines")
	flag.DurationVar(&s.computeBulk, "compute-bulk", 400*time.Millisecond, "the same for figure 11, where clocks begin sixteen times as long")
	flag.DurationVar(&s.join, "join", time.Minute, "that machines have for joining; clocks are short until then")
	flag.IntVar(&s.splits, "splits", 1008, "pieces of the work: 16 for each of 63 machines")
	flag.IntVar(&s.clocks, "clocks", 5, "to measure in each run")
	flag.IntVar(&s.runs, "runs", 5, "of each layout; medians count")
	flag.StringVar(&s.log, "log", "", "file for what the processes say")
	only := flag.String("only", "", "layouts to measure, with commas (default: all)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	net, err := layNetwork(ctx, 64, s.rate)
	if err != nil {
		return err
	}
	defer net.remove()
	fmt.Printf("%d hosts with links of %s, %v of computing in a clock, %d KB read and written by a worker, %d KB of state\n",
		64, s.rate, s.compute, 2*sharedRows*sharedColumns*4/1024, (sharedRows*sharedColumns+s.splits*ownColumns)*4/1024)
	fmt.Println("layout                         clock (median)     quartiles   of traditional   host CPU   of which ours")
	var usual time.Duration
	for _, l := range layouts {
		if *only != "" && !strings.Contains(","+*only+",", ","+l.name+",") {
			continue
		}
		m, err := repeat(ctx, net, s, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		if l.name == "traditional" {
			usual = m.median
		}
		share := "-"
		if usual > 0 {
			share = fmt.Sprintf("%.2f x", m.median.Seconds()/usual.Seconds())
		}
		fmt.Printf("%-29s  %14v  %5.2f to %4.2f   %14s   %6.0f %%   %10.0f %%\n", l.words, m.median.Round(time.Millisecond),
			m.low.Seconds(), m.high.Seconds(), share, 100*m.cpu, 100*m.own)
	}
	if *only == "" || strings.Contains(","+*only+",", ",bulk,") {
		s.compute = s.computeBulk
		b, err := growths(ctx, net, s)
		if err != nil {
			return fmt.Errorf("bulk: %w", err)
		}
		b.print()
	}
	return nil
}

// layout is how many machines of which tier do what.
type layout struct {
	name, words         string
	transient, reliable int
	two, three          float64 // thresholds of the stages
	more                int     // servers beside those of the stage, added while training goes on
}

const never = 1e9

var layouts = []layout{
	{"traditional", "traditional, 64 machines", 0, 64, never, never, 0},
	{"stage1", "stage 1, 60 and 4 reliable", 60, 4, never, never, 0},
	{"stage2", "stage 2, 63 and 1 reliable", 63, 1, 1, never, 0},
	{"stage3", "stage 3, 63 and 1 reliable", 63, 1, 1, 15, 0},
	{"stage3wide", "stage 3, ActivePSs on all 63", 63, 1, 1, 15, 31},
	{"traditional16", "traditional, 16 machines", 0, 16, never, never, 0},
	{"traditional32", "traditional, 32 machines", 0, 32, never, never, 0},
	{"stage3of16", "stage 3, 15 and 1 reliable", 15, 1, 1, 14, 0},
	{"stage3of32", "stage 3, 31 and 1 reliable", 31, 1, 1, 14, 0},
}
