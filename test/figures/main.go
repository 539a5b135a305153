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
	"io"
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
	rate     string        // of a link in each direction, as tc has it
	rateBulk string        // the same for figure 11, which is not about links
	compute  time.Duration // of a clock, on 63 or 64 machines
	// computeBulk is compute for figure 11, in which four machines do all of it: sixteen times as long.
	computeBulk time.Duration
	splits      int
	rows        int           // load.Rows
	warning     time.Duration // before an eviction: what has changed must be delivered within half of it
	clocks      int           // measured
	runs        int
	log         string
}

func command() error {
	var s settings
	flag.StringVar(&s.rate, "rate", "3500kbit", "of a link in each direction, as tc has it")
	flag.StringVar(&s.rateBulk, "rate-bulk", "20mbit", "the same for figure 11")
	flag.DurationVar(&s.compute, "compute", 4*time.Second, "that a clock computes on 63 or 64 machines")
	flag.DurationVar(&s.computeBulk, "compute-bulk", 1250*time.Millisecond, "the same for figure 11, where clocks begin sixteen times as long")
	flag.DurationVar(&s.warning, "warning", 0, "that evictions give, by which owners deliver their cuts (default: five times -compute)")
	flag.IntVar(&s.splits, "splits", 252, "pieces of the work: 4 for each of 63 machines")
	flag.IntVar(&s.rows, "rows", 4, "of its own that a split has, of which a clock changes one; figure 11: 1")
	flag.IntVar(&s.clocks, "clocks", 3, "to measure in each run")
	flag.IntVar(&s.runs, "runs", 5, "of each layout; medians count")
	flag.StringVar(&s.log, "log", "", "file for what the processes say")
	only := flag.String("only", "", "layouts to measure, with commas (default: all)")
	page := flag.String("write", "", "page whose lines between figures:begin and figures:end become what was measured")
	flag.Parse()
	if s.warning == 0 {
		s.warning = 5 * s.compute
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	net, err := layNetwork(ctx, 64, s.rate)
	if err != nil {
		return err
	}
	defer func() { net.remove() }() // the last one
	var said strings.Builder
	out := io.MultiWriter(os.Stdout, &said)
	fmt.Fprintf(out, "%d runs each, of %d clocks; %d hosts with links of %s, %v of computing in a clock, %d KB read and as much written by a worker, %d KB of state\n",
		s.runs, s.clocks, 64, s.rate, s.compute, (sharedRows*sharedColumns+s.splits/63*ownColumns)*4/1024, (sharedRows*sharedColumns+s.splits*s.rows*ownColumns)*4/1024)
	fmt.Fprintln(out, "layout                                 clock   from    to   of traditional   host CPU   of which ours")
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
			usual = m.clock
		}
		share := "-"
		if usual > 0 {
			share = fmt.Sprintf("%.2f x", m.clock.Seconds()/usual.Seconds())
		}
		fmt.Fprintf(out, "%-32s  %10v  %5.2f to %4.2f   %14s   %6.0f %%   %10.0f %%\n", l.words, m.clock.Round(time.Millisecond),
			m.shortest.Seconds(), m.longest.Seconds(), share, 100*m.cpu, 100*m.own)
	}
	if *only == "" || strings.Contains(","+*only+",", ",bulk,") {
		s.compute, s.rows = s.computeBulk, 1
		net.remove()
		faster, err := layNetwork(ctx, 64, s.rateBulk)
		if err != nil {
			return err
		}
		net = faster
		b, err := growths(ctx, net, s)
		if err != nil {
			return fmt.Errorf("bulk: %w", err)
		}
		b.print(out)
	}
	if *page != "" {
		return write(*page, said.String())
	}
	return nil
}

// write puts what was measured on a page.
func write(path, measured string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	const begin, end = "<!-- figures:begin -->\n", "<!-- figures:end -->"
	before, rest, there := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !there || !ends {
		return fmt.Errorf("%s has no lines %q and %q", path, begin, end)
	}
	text = []byte(before + begin + "```text\n" + measured + "```\n" + end + after)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// layout is how many machines of which tier do what.
type layout struct {
	name, words         string
	transient, reliable int
	two, three          float64 // thresholds of the stages
	warm                int     // clocks until cuts are as large as they get
	unpaced             bool    // cuts follow one another, and come from all owners at once, as in the paper; tierml leaves links to training
}

const never = 1e9

var layouts = []layout{
	{name: "traditional", words: "traditional, 64 machines", reliable: 64, two: never, three: never},
	{name: "stage1", words: "stage 1, 60 and 4 reliable", transient: 60, reliable: 4, two: never, three: never},
	{name: "stage2", words: "stage 2, 63 and 1, cuts as paper", transient: 63, reliable: 1, two: 1, three: never, warm: 6, unpaced: true},
	{name: "stage3", words: "stage 3, 63 and 1, cuts as paper", transient: 63, reliable: 1, two: 1, three: 15, warm: 4, unpaced: true},
	{name: "stage2paced", words: "stage 2, 63 and 1 reliable", transient: 63, reliable: 1, two: 1, three: never},
	{name: "stage3paced", words: "stage 3, 63 and 1 reliable", transient: 63, reliable: 1, two: 1, three: 15},
	{name: "traditional16", words: "traditional, 16 machines", reliable: 16, two: never, three: never},
	{name: "traditional32", words: "traditional, 32 machines", reliable: 32, two: never, three: never},
	{name: "stage3of16", words: "stage 3, 15 and 1 reliable", transient: 15, reliable: 1, two: 1, three: 14},
	{name: "stage3of32", words: "stage 3, 31 and 1 reliable", transient: 31, reliable: 1, two: 1, three: 14},
}
