package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/table"
)

// outputFlag gives a command that prints a list the flag -o.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", table.Plain, "output format: "+strings.Join(table.Formats(), ", "))
	completeFlag(cmd, "output", table.Formats()...)
}

// checkFormat is for before the work: what cannot be printed need not be done.
func checkFormat(format string) error {
	if err := table.Check(format); err != nil {
		return usageError{err}
	}
	return nil
}
