package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/table"
)

// CompleteFlag lets shells complete the words that a flag accepts; a command without the flag is unchanged.
func CompleteFlag(cmd *cobra.Command, flag string, words ...string) {
	if cmd.Flags().Lookup(flag) == nil {
		return
	}
	// It fails only if the flag already has a function.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// PrintDoubts prints the reasons why prices are doubtful.
func PrintDoubts(errOut io.Writer, doubts []string) {
	for _, text := range doubts {
		fmt.Fprintln(errOut, "tierml: "+text)
	}
}

// OnTheWay returns the writer for progress messages: programs that parse the output get only the output.
func OnTheWay(out io.Writer, format string) io.Writer {
	if ForPeople(format) {
		return out
	}
	return io.Discard
}

// FormatHTML is the format of commands that can print a web page.
const FormatHTML = "html"

// OutputFlag adds the flag -o to a command that lists something; more are formats that only this command has.
func OutputFlag(cmd *cobra.Command, format *string, more ...string) {
	forms := append(table.Formats(), more...)
	cmd.Flags().StringVarP(format, "output", "o", table.Plain, "output `format`: "+strings.Join(forms, ", "))
	CompleteFlag(cmd, "output", forms...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return CheckFormat(*format, more...) }
}

// CheckFormat rejects an unknown format before any work is done.
func CheckFormat(format string, more ...string) error {
	forms := append(table.Formats(), more...)
	if slices.Contains(forms, format) || format == table.Text { // another name for table, which some commands used to have
		return nil
	}
	return Usage(fmt.Errorf("output format %q does not exist%s; write -o %s", format, DidYouMean(format, forms), strings.Join(forms, ", -o ")))
}

// ForPeople reports whether people read a format, so that additional text does no harm.
func ForPeople(format string) bool {
	return format == table.Plain || format == table.Wide || format == table.Text
}
