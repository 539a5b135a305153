package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// errDeclined is the answer "no" to "Proceed?". Its code is that of a failure, so that `tierml run && next` stops.
var errDeclined = exitError{exitFailed, errors.New("stopped before anything was started, as you said no")}

// confirm asks on out and reads the answer from in; yes skips the question. It returns errDeclined for no. When
// there is no terminal (interactive is false), that is an error, not a hang.
func confirm(in io.Reader, out io.Writer, interactive, yes bool) error {
	if yes {
		return nil
	}
	if !interactive {
		return usageError{errors.New("cannot ask whether to proceed, as there is no terminal; add -y to proceed without asking")}
	}
	answers := bufio.NewScanner(in)
	for {
		fmt.Fprint(out, "Proceed? [Y/n] ")
		if !answers.Scan() {
			fmt.Fprintln(out)
			if err := answers.Err(); err != nil {
				return fmt.Errorf("reading the answer: %w", err)
			}
			return errDeclined // end of input: Ctrl-D
		}
		switch strings.ToLower(strings.TrimSpace(answers.Text())) {
		case "", "y", "yes":
			return nil
		case "n", "no":
			return errDeclined
		}
		fmt.Fprintln(out, "Please answer y or n.")
	}
}

// errInterrupted is Ctrl-C before anything was bought.
var errInterrupted = exitError{exitInterrupted, errors.New("stopped by Ctrl-C before anything was started")}

// confirmUntil is confirm where Ctrl-C is caught, which is an answer, too.
func confirmUntil(ctx context.Context, in io.Reader, out io.Writer, yes bool) error {
	answer := make(chan error, 1)
	// After Ctrl-C it waits for a line that nobody reads, until the process ends.
	go func() { answer <- confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), yes) }()
	select {
	case err := <-answer:
		if err == nil && ctx.Err() != nil {
			return errInterrupted
		}
		return err
	case <-ctx.Done():
		fmt.Fprintln(out)
		return errInterrupted
	}
}

// useColor reports whether to colour what goes to a stream: terminals only, unless NO_COLOR is set
// (https://no-color.org) or the terminal is dumb.
func useColor(stream any) bool {
	return cli.IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
