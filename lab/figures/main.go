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

// commands define their flags and return their functions.
var commands = map[string]func(*flag.FlagSet) func(context.Context, io.Writer) error{"figures": figureFlags, "paces": paceFlags}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	name := "figures"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	if name == agent {
		return runAgent()
	}
	define := commands[name]
	if define == nil {
		return fmt.Errorf("%q: there are figures and paces; -h behind one shows its flags", name)
	}
	f := flag.NewFlagSet(name, flag.ExitOnError)
	run := define(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Stdout)
}
