// Command paper runs TierML's analysis (CMU-PDL-16-102, figures 1 and 12 and section 4.6) on recorded prices and prints
// it next to the paper's figures: `make paper`. It has the recordings, machine types and fleets, and drives sim/sweep
// as `tierml dry-run` does; it decides nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/sim/sweep"
)

// controlStarts is the number of starts for the control of switching.
const controlStarts = 200

func main() {
	if err := analyse(); err != nil {
		fmt.Fprintln(os.Stderr, "paper:", err)
		os.Exit(1)
	}
}

// options are the command line's options.
type options struct {
	data, starts, out, results    string
	traces, catalog, pairs, zones string
	from, to, hours               string
	seed                          uint64
	machines, reliable            int
	kept                          bool
	lookahead                     int
}

func (o *options) parse() {
	flag.StringVar(&o.data, "data", "../../shared/data", "`folder` with spot/ and catalog/")
	flag.StringVar(&o.traces, "trace", "", "other price recordings: `files`, separated by commas, instead of those of -data")
	flag.StringVar(&o.catalog, "catalog", "", "with -trace: `file` of machine types with on-demand prices")
	flag.StringVar(&o.pairs, "pairs", "", "with -trace: `SMALL/LARGE,...` types; default: neighbours in size of each family")
	flag.StringVar(&o.zones, "zones", "", "only these `zones`, separated by commas; default: all")
	flag.StringVar(&o.from, "from", "", "with -trace: `date` from which prices count, such as 2016-01-01")
	flag.StringVar(&o.to, "to", "", "with -trace: `date` until which they count")
	flag.StringVar(&o.hours, "hours", "2,4,8,20", "of work, on the fleet undisturbed")
	flag.StringVar(&o.starts, "starts", "20", "starts of each cell: every (minute), or a number")
	flag.Uint64Var(&o.seed, "seed", 1, "of the choice of starts")
	flag.IntVar(&o.machines, "machines", 64, "of the larger type")
	flag.IntVar(&o.reliable, "reliable", 1, "machines that TierML has on demand")
	flag.IntVar(&o.lookahead, "lookahead", 0, "what foresight is worth (docs/dry-run.md), and nothing else, in this many `pools`: those that are dearer than on demand most often")
	flag.StringVar(&o.results, "results", "", "keep what is done in this `file`, and do not do again what it holds: a run can be broken off")
	flag.BoolVar(&o.kept, "kept", false, "of prices, print what -results holds, and run no more")
	flag.StringVar(&o.out, "o", "", "write to this `file`, too")
	flag.Parse()
}

// recordings returns those of -data, or those of -trace.
func (o *options) recordings() ([]recording, error) {
	if o.traces == "" {
		if o.pairs != "" || o.catalog != "" || o.from != "" || o.to != "" {
			return nil, errors.New("-pairs, -catalog, -from and -to are for -trace")
		}
		all := shipped(o.data)
		if files := missing(all); len(files) > 0 {
			return nil, fmt.Errorf("these recordings are not there: %s; name their folder, make paper DATA=folder, or others with "+
				"-trace; papers/paper.md says where they come from", strings.Join(files, ", "))
		}
		for i := range all {
			all[i].zones = split(o.zones)
		}
		return all, nil
	}
	if o.catalog == "" {
		return nil, errors.New("-trace needs a -catalog of on-demand prices at that time")
	}
	r := recording{catalog: o.catalog, zones: split(o.zones)}
	var err error
	if r.pairs, err = parsePairs(o.pairs); err != nil {
		return nil, err
	}
	for _, date := range []struct {
		text string
		to   *time.Time
	}{{o.from, &r.from}, {o.to, &r.to}} {
		if date.text == "" {
			continue
		}
		if *date.to, err = time.Parse(time.DateOnly, date.text); err != nil {
			return nil, fmt.Errorf("date %q: write it as 2016-01-31", date.text)
		}
	}
	var out []recording
	for _, file := range split(o.traces) {
		r.name, r.prices = nameOf(file), file
		out = append(out, r)
	}
	return out, nil
}

// nameOf returns a file's name without its folder and endings.
func nameOf(file string) string {
	name, _, _ := strings.Cut(file[strings.LastIndexByte(file, '/')+1:], ".")
	return name
}

func (o *options) lengths() (out []time.Duration, err error) {
	for _, text := range split(o.hours) {
		h, err := strconv.ParseFloat(text, 64)
		if err != nil || !(h > 0) || h > 10000 {
			return nil, fmt.Errorf("-hours %q: write numbers above 0, such as 2,4,8,20", text)
		}
		out = append(out, time.Duration(h*float64(time.Hour)).Round(time.Second))
	}
	return out, nil
}

func analyse() error {
	var o options
	o.parse()
	when, err := sweep.ParseStarts(o.starts, o.seed)
	if err != nil {
		return err
	}
	if o.reliable < 1 || o.reliable >= o.machines {
		return fmt.Errorf("-reliable %d of -machines %d: write at least 1, and fewer than all", o.reliable, o.machines)
	}
	hours, err := o.lengths()
	if err != nil {
		return err
	}
	recordings, err := o.recordings()
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	s := study{fleet: fleet{o.machines, o.reliable}, hours: hours, when: when, starts: o.starts, kept: o.kept,
		told: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	var cells []cell
	for _, r := range recordings {
		some, err := r.cells()
		if err != nil {
			return err
		}
		cells = append(cells, some...)
	}
	if o.lookahead > 0 {
		var p page
		if err := p.lookahead(ctx, cells, &o); err != nil {
			return err
		}
		return write(o.out, p.String())
	}
	results, err := s.run(ctx, cells, o.results)
	if err != nil {
		return err
	}
	turning, err := usual.run(ctx, s.fleet, controlStarts)
	if err != nil {
		return err
	}
	p := &page{hours: hours}
	p.write(results, len(cells), &o, turning)
	fmt.Fprintf(os.Stderr, "all of it took %s\n", time.Since(began).Round(time.Second))
	return write(o.out, p.String())
}

// write prints to standard output and, if a path is given, to a file.
func write(path, text string) error {
	_, err := io.WriteString(os.Stdout, text)
	if path != "" {
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
	}
	return err
}
