// Command chaos lets random faults happen to one run of real processes with a separate fake cloud, and checks afterwards
// what docs/training.md promises: no clock lost beyond the last committed cut, one cut everywhere after each recovery,
// every update counted once, no checkpoint that is not whole, nobody's wish forgotten, nothing stuck, no process left over. The work is a count in integers (apps/tally), so that the
// sum in the tables can be compared with the sum of the work. A seed repeats the plan of faults.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func command() error {
	var o options
	flag.DurationVar(&o.length, "duration", 15*time.Minute, "how long faults go on")
	flag.IntVar(&o.faults, "faults", 200, "how many")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()%1e6), "seed of the plan of faults")
	flag.IntVar(&o.machines, "machines", 8, "transient machines")
	flag.IntVar(&o.reliable, "reliable", 2, "reliable machines")
	flag.StringVar(&o.consistency, "consistency", "", "bsp, ssp or asp (default: drawn from the seed)")
	flag.BoolVar(&o.tls, "tls", false, "everything between controller and machines in mutual TLS")
	without := flag.String("without", "", "kinds of faults to leave out, with commas")
	show := flag.Bool("plan", false, "print the plan of faults and do nothing")
	flag.Parse()
	o.without = strings.Split(*without, ",")
	o.out = os.Stdout
	if _, err := exec.LookPath("ss"); err != nil || os.Geteuid() != 0 {
		fmt.Println("without dropped connections: they take root and ss (Debian: iproute2)")
		o.without = append(o.without, "drop")
	}
	if os.Geteuid() != 0 {
		fmt.Println("without a full disk: it takes root, for a small file system of its own")
		o.without = append(o.without, "disk-full")
	}
	plan := draw(o)
	fmt.Printf("seed %d: %d faults in %v\n", o.seed, len(plan), o.length)
	if *show {
		fmt.Println(plan)
		return nil
	}
	dir, err := os.MkdirTemp("", "tierml-chaos-")
	if err != nil {
		return fmt.Errorf("making a working directory: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := chaos(ctx, o, plan, dir); err != nil {
		return fmt.Errorf("seed %d: %w\nwhat is left of it is in %s", o.seed, err, dir)
	}
	fmt.Println("all promises kept")
	return os.RemoveAll(dir)
}
