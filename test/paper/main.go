// Command paper runs TierML's analysis (CMU-PDL-16-102, figures 1 and 12 and section 4.6) on recorded prices and prints
// it beside the paper's figures: `make paper`. It knows which recordings, machine types and fleets belong to it, and
// drives sim/sweep as `tierml dry-run` does; it decides nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/sim/sweep"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "paper:", err)
		os.Exit(1)
	}
}

func run() error {
	data := flag.String("data", "../shared/data", "`folder` with spot/ and catalog/")
	starts := flag.String("starts", "100", "starts of each cell: every, or a number")
	seed := flag.Uint64("seed", 1, "of the choice of starts")
	out := flag.String("o", "", "write to this `file`, too")
	flag.Parse()
	when, err := sweep.ParseStarts(*starts, *seed)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(*data, "spot")); err != nil {
		return fmt.Errorf("there are no price recordings in %s/spot: name their folder, make paper DATA=folder; "+
			"docs/paper.md says which files are read and where they come from", *data)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	var results []result
	for _, r := range recordings {
		cells, err := r.cells(*data)
		if err != nil {
			return err
		}
		for _, c := range cells {
			for _, hours := range lengths {
				got, err := c.run(ctx, hours, when)
				if err != nil {
					return fmt.Errorf("%s: %w", c, err)
				}
				results = append(results, got)
				fmt.Fprintf(os.Stderr, "%s, %.0f h: %d starts (%s)\n", c, hours.Hours(), got.starts, time.Since(began).Round(time.Second))
			}
		}
	}
	return write(*out, func(w io.Writer) error { return report(w, results, *starts) })
}

// write prints to standard output and, when a path is given, to a file.
func write(path string, print func(io.Writer) error) error {
	if path == "" {
		return print(os.Stdout)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(print(io.MultiWriter(os.Stdout, file)), file.Close())
}
