// Command trials runs whole jobs from outside: the program as a user has it, a fake cloud in its own process, and real
// processes as machines. It disturbs them and checks the journal, the model file, the bill and the process table
// afterwards. It knows nothing about the internals of the processes.
//
//	soak      applications x consistencies x disturbances, one short run each, and storms of random disturbances
//	chaos     one long storm over one run, every promise checked afterwards
//	recovery  how long training stops after a loss
//	elastic   what a change of machines costs compared with kill and restart
//	agree     plan, dry run and run of one job side by side
//	server    a storm over job servers with jobs of every kind
//	agents    what a clock costs as machines are added and the work stays the same
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// place is where a trial works.
type place struct {
	dir, binary string
	out         io.Writer
}

// commands define their flags and return their functions.
var commands = map[string]func(*flag.FlagSet) func(context.Context, place) error{
	"soak": soak, "chaos": chaos, "recovery": recovery, "elastic": elastic, "agents": agents, "agree": agree, "server": serverStorm,
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trials:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	define := commands[name]
	if define == nil {
		return fmt.Errorf("%q: there are soak, chaos, recovery, elastic, agents, agree and server; -h behind one shows its flags", name)
	}
	f := flag.NewFlagSet("trials "+name, flag.ExitOnError)
	run := define(f)
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "tierml-"+name+"-")
	if err != nil {
		return fmt.Errorf("making a working directory: %w", err)
	}
	at := place{dir: dir, out: os.Stdout}
	if given := f.Lookup("binary"); given != nil && given.Value.String() != "" {
		at.binary = given.Value.String()
	} else if at.binary, err = build(ctx, dir); err != nil {
		return err
	}
	if err := run(ctx, at); err != nil {
		return fmt.Errorf("%s: %w\nwhat is left of it is in %s", name, err, dir)
	}
	return os.RemoveAll(dir)
}
