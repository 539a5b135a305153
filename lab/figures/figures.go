// Command figures measures how long clocks take on up to 64 machines with the network as the bottleneck, like figures 7
// to 11 of the paper "TierML (CMU-PDL-16-102)". A machine is a process of the real agent in a network namespace of its
// own, with a link shaped in both directions; computing is paced, so that two cores emulate 64 machines. The
// controller, parameter servers and workers are the regular ones; the cloud is a few lines that start and kill such
// processes. It knows nothing about the market.
//
// It needs root, and ip and tc of Debian's iproute2.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// settings of a network and a job.
type settings struct {
	rate     string        // of a link in each direction, in tc's format
	rateBulk string        // the same for figure 11, which is not about links
	compute  time.Duration // per clock, on 63 or 64 machines
	// computeBulk is compute for figure 11, in which four machines do all of it: sixteen times as long.
	computeBulk time.Duration
	splits      int
	rows        int           // load.Rows
	warning     time.Duration // before an eviction: changes must be delivered within half of it
	clocks      int           // number measured
	runs        int
	log         string
	only, page  string
}

// figureFlags defines the flags of a measurement, and returns the function that does it.
func figureFlags(f *flag.FlagSet) func(context.Context, io.Writer) error {
	var s settings
	f.StringVar(&s.rate, "rate", "3500kbit", "of a link in each direction, as tc has it")
	f.StringVar(&s.rateBulk, "rate-bulk", "20mbit", "the same for figure 11")
	f.DurationVar(&s.compute, "compute", 4*time.Second, "that a clock computes on 63 or 64 machines")
	f.DurationVar(&s.computeBulk, "compute-bulk", 1250*time.Millisecond, "the same for figure 11, where clocks begin sixteen times as long")
	f.DurationVar(&s.warning, "warning", 0, "that evictions give, by which owners deliver their cuts (default: five times -compute)")
	f.IntVar(&s.splits, "splits", 252, "pieces of the work: 4 for each of 63 machines")
	f.IntVar(&s.rows, "rows", 4, "of its own that a split has, of which a clock changes one; figure 11: 1")
	f.IntVar(&s.clocks, "clocks", 3, "to measure in each run")
	f.IntVar(&s.runs, "runs", 5, "of each layout; medians count")
	f.StringVar(&s.log, "log", "", "file for what the processes print")
	f.StringVar(&s.only, "only", "", "layouts to measure, with commas (default: all)")
	f.StringVar(&s.page, "write", "", "page whose lines between figures:begin and figures:end become what was measured")
	return s.measure
}

const hosts = 64

func (s settings) wants(layout string) bool {
	return s.only == "" || slices.Contains(strings.Split(s.only, ","), layout)
}

func (s *settings) measure(ctx context.Context, to io.Writer) error {
	if s.warning == 0 {
		s.warning = 5 * s.compute
	}
	net, err := layNetwork(ctx, hosts, s.rate)
	if err != nil {
		return err
	}
	defer func() { net.remove() }() // the last one
	var text strings.Builder
	out := io.MultiWriter(to, &text)
	fmt.Fprintf(out, "%d runs each, of %d clocks; %d hosts with links of %s, %v of computing in a clock, %d KB read and as much written by a worker, %d KB of state\n",
		s.runs, s.clocks, hosts, s.rate, s.compute, (sharedRows*sharedColumns+s.splits/63*ownColumns)*4/1024, (sharedRows*sharedColumns+s.splits*s.rows*ownColumns)*4/1024)
	fmt.Fprintln(out, "layout                                 clock   from    to   of traditional   host CPU   of which ours")
	var usual time.Duration
	for _, l := range layouts {
		if !s.wants(l.name) {
			continue
		}
		m, err := middle(s.runs, func() (measured, error) { return once(ctx, net, *s, l) }, func(m measured) float64 { return m.clock.Seconds() })
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		if l.name == "traditional" {
			usual = m.clock
		}
		m.print(out, l.words, usual)
	}
	if s.wants("bulk") {
		s.compute, s.rows = s.computeBulk, 1
		net.remove()
		faster, err := layNetwork(ctx, hosts, s.rateBulk)
		if err != nil {
			return err
		}
		net = faster
		b, err := middle(s.runs, func() (bulk, error) { return grow(ctx, net, *s) }, func(b bulk) float64 { return percent(b.evicted, b.after) })
		if err != nil {
			return fmt.Errorf("bulk: %w", err)
		}
		b.print(out)
	}
	if s.page == "" {
		return nil
	}
	return write(s.page, text.String())
}

// middle repeats a measurement and returns the one with the median figure.
func middle[M any](times int, measure func() (M, error), figure func(M) float64) (m M, err error) {
	var all []M
	for range times {
		if m, err = measure(); err != nil {
			return m, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b M) int { return cmp.Compare(figure(a), figure(b)) })
	return all[len(all)/2], nil
}

// write writes the measurements to a page.
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

// layout is the number and roles of machines by tier.
type layout struct {
	name, words         string
	transient, reliable int
	two, three          float64 // thresholds of the stages
	warm                int     // clocks until cuts reach their full size
	unpaced             bool    // cuts follow one another, from all owners at once, as in the paper; tierml leaves links to training
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
