package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// OneJobFile requires the path of a job file.
func OneJobFile(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("name a job file (`tierml init` writes one)")
	case 1:
		return nil
	}
	return fmt.Errorf("name one job file; there are %d arguments", len(args))
}

// Arguments accepts from least to most arguments, most < 0 being any number; otherwise its error explains what to
// write.
func Arguments(least, most int, otherwise string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return errors.New(otherwise)
		}
		return nil
	}
}

// OneRun accepts the name of a run, or nothing, which means the latest.
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
