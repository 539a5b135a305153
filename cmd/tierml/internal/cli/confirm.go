package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errDeclined is the answer "no" to "Proceed?". Its exit code is that of a failure, so that `tierml run && next` stops.
var errDeclined = Exit(ExitFailed, errors.New("stopped before anything was started, as you said no"))

// Confirm asks on out and reads the answer from in; yes skips the question. It returns errDeclined for the answer no.
// Without a terminal (interactive is false) it returns an error rather than hang.
func Confirm(in io.Reader, out io.Writer, interactive, yes bool) error {
	if yes {
		return nil
	}
	if !interactive {
		return Usage(errors.New("cannot ask whether to proceed, as there is no terminal; add -y to proceed without asking"))
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

// ErrInterrupted is Ctrl-C before anything was bought.
var ErrInterrupted = Exit(ExitInterrupted, errors.New("stopped by Ctrl-C before anything was started"))

// ConfirmUntil is Confirm that also accepts Ctrl-C, which is caught, as an answer.
func ConfirmUntil(ctx context.Context, in io.Reader, out io.Writer, yes bool) error {
	answer := make(chan error, 1)
	// After Ctrl-C it keeps waiting for a line that is never read, until the process ends.
	go func() { answer <- Confirm(in, out, IsTerminal(in) && IsTerminal(out), yes) }()
	select {
	case err := <-answer:
		if err == nil && ctx.Err() != nil {
			return ErrInterrupted
		}
		return err
	case <-ctx.Done():
		fmt.Fprintln(out)
		return ErrInterrupted
	}
}

// UseColor reports whether to colour a stream's output: terminals only, unless NO_COLOR is set
// (https://no-color.org) or the terminal is dumb.
func UseColor(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
