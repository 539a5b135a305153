// Package cli provides the conventions of a command-line tool: a first screen with commands in groups, help topics, suggestions for a
// misspelt command or flag, hints at what to do next, completion for shells, and the reference page generated from all that. It knows cobra
// and knows nothing about what the commands do.
package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
)

// QuietFlag turns off what is only for people: hints and progress bars.
const QuietFlag = "quiet"

// Quiet reports whether a call wants neither hints nor bars.
func Quiet(cmd *cobra.Command) bool {
	quiet, err := cmd.Flags().GetBool(QuietFlag)
	return err == nil && quiet
}

// Step is a suggested next command.
type Step struct {
	Command string // as typed
	Why     string // what it does; may be empty
}

// Next suggests what to do next, one line per step. It goes to standard error and only to a terminal, so that neither programs nor files
// get it.
func Next(cmd *cobra.Command, steps ...Step) {
	if out := cmd.ErrOrStderr(); !Quiet(cmd) && IsTerminal(out) {
		fmt.Fprintln(out)                                                                      // separates it from the command's output
		_ = table.Folded(out, func(w io.Writer) error { WriteSteps(w, steps...); return nil }) // like all hints
	}
}

// IsTerminal reports whether a person can be on the other side of a stream.
func IsTerminal(stream any) bool { return terminal.IsTerminal(stream) }

// WriteSteps lists what to do next.
func WriteSteps(out io.Writer, steps ...Step) {
	widest := 0
	for _, s := range steps {
		widest = max(widest, len(s.Command))
	}
	for i, s := range steps {
		label := "Next"
		if i > 0 {
			label = ""
		}
		line := fmt.Sprintf("%-4s  %-*s", label, widest, s.Command)
		if s.Why != "" {
			line += "   (" + s.Why + ")"
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// DidYouMean returns a question that suggests what was probably meant, to be appended to a message; empty if nothing is close.
func DidYouMean(name string, names []string) string {
	if near := spelling.Nearest(name, names); near != "" && near != name {
		return "; did you mean " + near + "?"
	}
	return ""
}

// FlagError rewords an error of parsing flags: it suggests what was probably meant, and where to look.
func FlagError(cmd *cobra.Command, err error) error {
	instead := ""
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if name := missing.GetSpecifiedName(); len(name) > 1 {
			if instead = insteadOf(cmd, name); instead == "" {
				instead = didYouMeanFlag(name, flagNames(cmd))
			}
		}
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if inner, ok := errors.AsType[*pflag.InvalidValueError](errors.Unwrap(bad)); ok { // of a setting
			bad = inner
		}
		if wanted := wantedValue[bad.GetFlag().Value.Type()]; wanted != "" {
			err = fmt.Errorf("--%s: %q is not %s", flagged(cmd, bad.GetFlag()), bad.GetValue(), wanted)
		}
	}
	return fmt.Errorf("%w%s; see `%s --help`", err, instead, cmd.CommandPath())
}

// wantedValue describes the values that a flag accepts, by its type; others have descriptions of their own.
var wantedValue = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 on", "float64": "a number", "bool": "true or false",
	"duration": "a time, such as 90s, 10m or 2h",
}

// flagged returns how a flag or setting is written, without the dashes.
func flagged(cmd *cobra.Command, f *pflag.Flag) string {
	if SettingsOf(cmd).Lookup(f.Name) == f {
		return SetFlag + " " + f.Name
	}
	return f.Name
}

func didYouMeanFlag(name string, names []string) string {
	if near := spelling.Nearest(name, names); near != "" {
		return " (did you mean --" + near + "?)"
	}
	return ""
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// ArgsError rewords an error of checking arguments: a command without subcommands has no unknown ones, so another
// command was probably meant.
func ArgsError(cmd *cobra.Command, args []string, err error) error {
	if strings.HasPrefix(err.Error(), "unknown command") && len(args) > 0 {
		if !cmd.HasSubCommands() {
			err = fmt.Errorf("%s takes no arguments; there is %q", cmd.CommandPath(), args[0])
		} else {
			err = fmt.Errorf("there is no command %q in %s%s", args[0], cmd.CommandPath(), meantCommand(cmd, args[0]))
		}
	}
	return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
}

// meantCommand suggests the command that was probably meant: by its names in other tools, or by its spelling.
func meantCommand(cmd *cobra.Command, word string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		for _, other := range sub.SuggestFor {
			if strings.EqualFold(other, word) {
				return " (did you mean `" + sub.CommandPath() + "`?)"
			}
		}
		names = append(names, sub.Name())
	}
	if near := spelling.Nearest(word, names); near != "" {
		return " (did you mean `" + cmd.CommandPath() + " " + near + "`?)"
	}
	return ""
}

// MissingFlags rewords cobra's error about missing required flags; nil for other errors.
func MissingFlags(cmd *cobra.Command, err error) error {
	if !strings.HasPrefix(err.Error(), "required flag(s)") {
		return nil
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	return fmt.Errorf("%s needs %s; see `%[1]s --help`", cmd.CommandPath(), strings.Join(missing, " and "))
}
