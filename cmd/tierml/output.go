package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/table"
)

// formatHTML is the form of what has a page.
const formatHTML = "html"

// outputFlag gives a command that lists something the flag -o; more are forms that others do not have.
func outputFlag(cmd *cobra.Command, format *string, more ...string) {
	forms := append(table.Formats(), more...)
	cmd.Flags().StringVarP(format, "output", "o", table.Plain, "output `format`: "+strings.Join(forms, ", "))
	completeFlag(cmd, "output", forms...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkFormat(*format, more...) }
}

// checkFormat refuses an unknown format before any work is done.
func checkFormat(format string, more ...string) error {
	forms := append(table.Formats(), more...)
	if slices.Contains(forms, format) || format == table.Text { // another word for table, as some commands had it
		return nil
	}
	return usageError{fmt.Errorf("output format %q does not exist%s; write -o %s", format, cli.DidYouMean(format, forms), strings.Join(forms, ", -o "))}
}

// forPeople reports whether a form is read by people, so that words around it do no harm.
func forPeople(format string) bool {
	return format == table.Plain || format == table.Wide || format == table.Text
}
