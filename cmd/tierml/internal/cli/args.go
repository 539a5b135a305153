package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// ShellLine writes words as they are typed into a shell.
func ShellLine(words []string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = word
		if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=./:@,") != "" {
			out[i] = Quoted(word)
		}
	}
	return strings.Join(out, " ")
}

// Quoted puts a word into the single quotes of a shell.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// OneJobFile wants the path of a job file.
func OneJobFile(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("name a job file, such as examples/demo.yaml")
	case 1:
		return nil
	}
	return fmt.Errorf("name one job file; there are %d arguments", len(args))
}

// Arguments takes so many of them, most < 0 being any number; with others it says what to write.
func Arguments(least, most int, otherwise string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return errors.New(otherwise)
		}
		return nil
	}
}

// OneRun takes the name of a run, or nothing for the latest.
func OneRun(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("name one run, such as demo-1; there are %d arguments", len(args))
	}
	return nil
}

// NamedRun explains RUN in help.
const NamedRun = `RUN is a run's directory, its name below ./runs, or the name of a job, which means its latest run`

// WhichRun explains [RUN] in help.
const WhichRun = NamedRun + `; without it, the
run whose journal was written last.`
